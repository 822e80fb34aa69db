// Package wire reads values that the Append functions of encoding/binary and of this package have written: values that
// processes share, and state that one process leaves to a later one. The input may be damaged or hostile. No input
// causes a panic, and no length in the input decides how much memory is allocated.
package wire

import (
	"encoding/binary"
	"math"
	"time"
)

// Reader reads values from Data. After the first error, it returns only zero values, and Err is set.
type Reader struct {
	Data []byte // the rest of the input
	Err  error

	damaged error
}

// NewReader returns a Reader that sets Err to the error damaged when it cannot read a value.
func NewReader(data []byte, damaged error) *Reader { return &Reader{Data: data, damaged: damaged} }

// Fail sets Err and drops the rest of the input.
func (r *Reader) Fail() {
	if r.Data = nil; r.Err == nil {
		r.Err = r.damaged
	}
}

func (r *Reader) Byte() byte {
	if len(r.Data) == 0 {
		r.Fail()
		return 0
	}
	b := r.Data[0]
	r.Data = r.Data[1:]
	return b
}

// Flag reads a flag that AppendFlag has written.
func (r *Reader) Flag() bool { return r.Byte() == 1 }

// Number reads a number that binary.AppendUvarint has written.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.Data)
	if size <= 0 {
		r.Fail()
		return 0
	}
	r.Data = r.Data[size:]
	return n
}

// Fixed reads a number that binary.BigEndian.AppendUint64 has written.
func (r *Reader) Fixed() uint64 {
	b := r.Bytes(8)
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Int reads a number from 0 up to the argument most.
func (r *Reader) Int(most int) int {
	n := r.Number()
	if n > uint64(most) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Count reads how many elements follow. It accepts no number that is larger than the rest of the input, because each
// element takes at least one byte.
func (r *Reader) Count() int { return r.Int(len(r.Data)) }

// Time reads a duration that AppendTime has written with the same unit.
func (r *Reader) Time(unit time.Duration) time.Duration {
	n, size := binary.Varint(r.Data)
	if size <= 0 || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		r.Fail()
		return 0
	}
	r.Data = r.Data[size:]
	return time.Duration(n) * unit
}

// Bytes reads n bytes. The result shares the memory of Data.
func (r *Reader) Bytes(n int) []byte {
	if n > len(r.Data) {
		r.Fail()
		return nil
	}
	b := r.Data[:n]
	r.Data = r.Data[n:]
	return b
}

// Text reads a text that AppendText has written.
func (r *Reader) Text() string { return string(r.Bytes(r.Count())) }

// AppendTime appends a duration as a number of whole units.
func AppendTime(b []byte, t, unit time.Duration) []byte {
	return binary.AppendVarint(b, int64(t/unit))
}

// AppendText appends the length of a text, and then the text.
func AppendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func AppendFlag(b []byte, flag bool) []byte {
	if flag {
		return append(b, 1)
	}
	return append(b, 0)
}
