// Package wire reads numbers that encoding/binary's Append functions have written: in values that processes share, and
// in the state that one process leaves to the next. Its input may be damaged or hostile: no input causes a panic, or
// determines how much memory is allocated.
package wire

import (
	"encoding/binary"
	"math"
	"time"
)

// Reader reads numbers until it meets an error. After an error it returns only zero values, and Err is set.
type Reader struct {
	Data []byte // the rest of the input
	Err  error

	damaged error
}

// NewReader returns a Reader that sets Err to damaged when it meets an error.
func NewReader(data []byte, damaged error) *Reader { return &Reader{Data: data, damaged: damaged} }

// Fail sets Err, and ends the reading.
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

// Flag reads what AppendFlag has written.
func (r *Reader) Flag() bool { return r.Byte() == 1 }

// Number reads what binary.AppendUvarint has written.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.Data)
	if size <= 0 {
		r.Fail()
		return 0
	}
	r.Data = r.Data[size:]
	return n
}

// Fixed reads what binary.BigEndian.AppendUint64 has written.
func (r *Reader) Fixed() uint64 {
	b := r.Bytes(8)
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Int reads a number that is not negative and not larger than most.
func (r *Reader) Int(most int) int {
	n := r.Number()
	if n > uint64(most) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Count reads the number of elements that follow, each of which takes at least one byte.
func (r *Reader) Count() int { return r.Int(len(r.Data)) }

// Time reads what AppendTime has written in the same unit.
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

// Text reads what AppendText has written.
func (r *Reader) Text() string { return string(r.Bytes(r.Count())) }

// AppendTime appends a time, in whole units.
func AppendTime(b []byte, t, unit time.Duration) []byte {
	return binary.AppendVarint(b, int64(t/unit))
}

// AppendText appends the length of a text and the text.
func AppendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func AppendFlag(b []byte, flag bool) []byte {
	if flag {
		return append(b, 1)
	}
	return append(b, 0)
}
