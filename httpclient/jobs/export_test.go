package jobs

// Remembered returns how many limits a policy remembers.
func (p *Policy) Remembered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.last)
}
