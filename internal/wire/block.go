package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A block is data that one process writes for a later one. It consists of two bytes for its kind and version, the
// length of its contents, the contents, and a checksum of all these bytes.

// ErrState is wrapped by the errors for blocks that cannot be used. Such a block is damaged, or has another kind or
// version than the reader expects.
var ErrState = errors.New("state cannot be used")

// ErrDamaged is the error for a block whose bytes have changed since it was written. It wraps ErrState.
var ErrDamaged = fmt.Errorf("%w: it is damaged", ErrState)

const (
	blockHead = 2 + 4
	blockTail = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BeginBlock returns the beginning of a block. Append the contents to it.
func BeginBlock(kind, version byte) []byte {
	return append(make([]byte, 0, 512), kind, version, 0, 0, 0, 0)
}

// EndBlock completes a block that BeginBlock began.
func EndBlock(b []byte) []byte {
	binary.BigEndian.PutUint32(b[2:], uint32(len(b)-blockHead))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// ReadBlock reads one block and returns its contents. It does not read beyond the block. It allocates memory only for
// bytes that it reads, whatever length the block claims.
func ReadBlock(r io.Reader, kind, version byte) ([]byte, error) {
	var b bytes.Buffer
	if err := readAll(&b, r, blockHead); err != nil {
		return nil, err
	}
	switch head := b.Bytes(); {
	case head[0] != kind:
		return nil, fmt.Errorf("%w: it is of another kind", ErrState)
	case head[1] != version:
		return nil, fmt.Errorf("%w: it has version %d, expected %d", ErrState, head[1], version)
	}
	if err := readAll(&b, r, int64(binary.BigEndian.Uint32(b.Bytes()[2:]))+blockTail); err != nil {
		return nil, err
	}
	end := b.Len() - blockTail
	if crc32.Checksum(b.Bytes()[:end], castagnoli) != binary.BigEndian.Uint32(b.Bytes()[end:]) {
		return nil, fmt.Errorf("%w, its checksum is wrong", ErrDamaged)
	}
	return b.Bytes()[blockHead:end], nil
}

func readAll(b *bytes.Buffer, r io.Reader, n int64) error {
	switch _, err := io.CopyN(b, r, n); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w, it ends too early", ErrDamaged)
	case err != nil:
		return fmt.Errorf("reading a state: %w", err)
	}
	return nil
}
