package discordsim

// operationKey is an operation as one authorization uses it.
type operationKey struct{ operation, authorization string }

// discovery is whether the client can know to which bucket an operation belongs.
type discovery struct {
	processed int // requests that were, and that get an answer
}

func (w *World) discover(x *exchange) *discovery {
	key := operationKey{x.call.Operation, x.call.Request.Authorization}
	d := w.operations[key]
	if d == nil {
		d = &discovery{}
		w.operations[key] = d
	}
	return d
}

// note takes down that a request was processed.
func (d *discovery) note(response *Response) {
	if !response.lost {
		d.processed++
		response.asks = d
	}
}

// lose notes that the answer was never read.
func (d *discovery) lose() {
	if d != nil {
		d.processed--
	}
}

// first reports that nothing was answered before, or is going to be. There is no other way to find out where an operation
// belongs than to send one request, not even if other operations have filled the bucket. Whoever sends a second one
// before the answer is to blame.
func (d *discovery) first() bool { return d.processed == 0 }
