package statefile

// Write writes the file now.
func (f *File) Write() error { return f.write() }
