package ratelimits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The first byte of encoded data identifies the type and the format. It changes whenever the fields of the type change.
const (
	windowFormat = 0x18
	permitFormat = 0x25
)

// farthest is the largest distance between an encoded instant and the base of the encoding, and also the longest
// encoded duration. The base of a Window is the result of Reset: the time at which the last charge and the hold have
// ended. The base of a Permit is the result of Sent. Instants that are farther than this in the past make no difference
// any more. Instants that are farther in the future only say how long something unusual is remembered.
const farthest = 2 * LongestTrust

// Append appends a compact form of the window to b and returns the result. DecodeWindow makes an equal window from this
// form. The encoded times are those of the clock with which the window is used; Shift converts a window to another
// clock. If a time is more than two days before or after the end of all charges and holds, the time is changed so that
// the distance is two days.
func (w *Window) Append(b []byte) []byte {
	e := newWriter(b, windowFormat, w.Reset())
	w.visit(e)
	return e.b
}

// DecodeWindow decodes the window at the beginning of data, which Append has written. It also returns the rest of the
// data, after the window. If the data are damaged or have another format, the error wraps ErrFormat. DecodeWindow never
// needs more memory than some dozen times the size of data.
func DecodeWindow(data []byte) (w Window, rest []byte, err error) {
	d := newReader(data, windowFormat)
	w.visit(d)
	if err := d.end(); err != nil {
		return Window{}, nil, fmt.Errorf("decoding a window: %w", err)
	}
	return w, d.data, nil
}

// Append appends a compact form of the permit to b and returns the result. DecodePermit makes an equal permit from this
// form.
func (p Permit) Append(b []byte) []byte {
	e := newWriter(b, permitFormat, p.sent)
	p.visit(e)
	return e.b
}

// DecodePermit decodes the permit at the beginning of data, which Append has written. It also returns the rest of the
// data, after the permit. Its errors wrap ErrFormat.
func DecodePermit(data []byte) (p Permit, rest []byte, err error) {
	d := newReader(data, permitFormat)
	p.visit(d)
	if err := d.end(); err != nil {
		return Permit{}, nil, fmt.Errorf("decoding a permit: %w", err)
	}
	return p, d.data, nil
}

// ErrFormat means that data cannot be decoded: they are damaged, or another version has written them.
var ErrFormat = errors.New("not in the form of this version")

// Values are written in groups of eight. The first byte of a group says which of its values are not zero. Only these
// values follow.

// writer is the visitor that encodes fields.
type writer struct {
	b       []byte
	group   int // index of the first byte of the current group
	written int
	base    time.Duration // instants are written as differences from it
}

func newWriter(b []byte, format byte, base time.Duration) *writer {
	e := &writer{b: append(b, format), base: within(base, longest)}
	e.value(zigzag(e.base))
	return e
}

func (e *writer) value(x uint64) {
	bit := e.written % 8
	if e.written++; bit == 0 {
		e.group, e.b = len(e.b), append(e.b, 0)
	}
	if x != 0 {
		e.b[e.group] |= 1 << bit
		e.b = binary.AppendUvarint(e.b, x)
	}
}

func (e *writer) number(n, most int64) int64 {
	e.value(uint64(min(max(n, 0), most)))
	return n
}

func (e *writer) length(n int) int {
	e.value(uint64(n))
	return n
}

func (e *writer) span(d *time.Duration)        { e.value(zigzag(within(*d, farthest))) }
func (e *writer) low(t *time.Duration, _ bool) { e.instant(*t) }

func (e *writer) high(t *time.Duration, _ bool) { e.instant(*t) }
func (e *writer) trip(ms *uint16)               { e.value(uint64(*ms)) }
func (e *writer) require(bool, string)          {}

// instant writes an instant. No instant is written as 0, whatever the base.
func (e *writer) instant(t time.Duration) {
	if t == 0 {
		e.value(0)
		return
	}
	e.value(zigzag(within(t-e.base, farthest)) + 1)
}

// reader is the visitor that decodes fields. The values that it returns after an error are meaningless.
type reader struct {
	data  []byte
	group byte // the remaining bits of the current group's first byte
	read  int
	base  time.Duration
	err   error
}

func newReader(data []byte, format byte) *reader {
	d := &reader{data: data}
	d.require(len(data) > 0 && data[0] == format, "its first byte is another one")
	if d.err == nil {
		d.data = data[1:]
	}
	d.base = d.time(longest)
	return d
}

// require records an error if holds is false.
func (d *reader) require(holds bool, otherwise string) {
	if !holds && d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrFormat, otherwise)
	}
}

func (d *reader) value() (x uint64) {
	if d.read%8 == 0 {
		if d.require(len(d.data) > 0, "it ends too early"); d.err != nil {
			return 0
		}
		d.group, d.data = d.data[0], d.data[1:]
	}
	there := d.group&1 != 0
	d.group, d.read = d.group>>1, d.read+1
	if !there {
		return 0
	}
	x, n := binary.Uvarint(d.data)
	if d.require(n > 0 && x != 0, "a value is damaged"); d.err != nil {
		return 0
	}
	d.data = d.data[n:]
	return x
}

// end returns the error of decoding. It is also an error if the last group has a value that was not read.
func (d *reader) end() error {
	d.require(d.group == 0, "it has too many values")
	return d.err
}

// time reads a duration, which may be negative.
func (d *reader) time(most time.Duration) time.Duration { return d.signed(d.value(), most) }

// signed is the inverse of zigzag.
func (d *reader) signed(x uint64, most time.Duration) time.Duration {
	t := time.Duration(x>>1) ^ -time.Duration(x&1)
	if d.require(within(t, most) == t, "a time is out of range"); d.err != nil {
		return 0
	}
	return t
}

func (d *reader) number(_, most int64) int64 {
	x := d.value()
	if d.require(x <= uint64(most), "a number is too large"); d.err != nil {
		return 0
	}
	return int64(x)
}

func (d *reader) span(t *time.Duration)         { *t = d.time(farthest) }
func (d *reader) low(t *time.Duration, _ bool)  { *t = d.instant() }
func (d *reader) high(t *time.Duration, _ bool) { *t = d.instant() }

func (d *reader) instant() time.Duration {
	x := d.value()
	if x == 0 {
		return 0
	}
	return d.base + d.signed(x-1, farthest)
}

func (d *reader) trip(ms *uint16) {
	*ms = uint16(d.number(0, math.MaxUint16))
}

// length reads how many charges follow. It accepts no number that is too large for the rest of the data, because each
// charge takes at least two bytes.
func (d *reader) length(int) int {
	x := d.value()
	if d.require(x <= uint64(len(d.data)/2), "a list is longer than the data"); d.err != nil {
		return 0
	}
	return int(x)
}

// zigzag maps positive and negative numbers that are small to small unsigned numbers.
func zigzag(t time.Duration) uint64 { return uint64(t)<<1 ^ uint64(t>>63) }

// within limits d to the range from -most to most.
func within(d, most time.Duration) time.Duration { return min(max(d, -most), most) }
