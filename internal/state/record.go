package state

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
)

// The log's format. A record is a line with an empty line before it:
//
//	\n CRC SP JSON \n
//
// CRC is the CRC-32C of the JSON in eight hex digits; the JSON, an entry, has no
// newline. Lines make a damaged record cost itself and no other: whatever
// becomes of its bytes, the next record starts at a newline of its own, and even
// a damaged newline has another beside it.
//
// A file is read whole; a later entry for a key replaces an earlier one.
const (
	maxRecord  = 64 << 10 // a line beyond this is damage
	maxFile    = 64 << 20 // a log is rewritten long before
	recordRoom = 256      // of a record, for what stands around key and value
	format     = 1        // value of the first entry, "format"
)

// entry is what a record holds.
type entry struct {
	N   uint64          `json:"n"` // counts up by one in a file: shows what is missing
	Key string          `json:"k"`
	Val json.RawMessage `json:"v"` // null deletes
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends e's record to b. e.Val is JSON as json.Marshal writes it.
func appendRecord(b []byte, e entry) ([]byte, error) {
	key, err := json.Marshal(e.Key)
	if err != nil {
		return b, fmt.Errorf("encode %q for the store: %w", e.Key, err)
	}
	size := len(key) + len(e.Val) + recordRoom
	if size > maxRecord {
		return b, fmt.Errorf("%q has %d bytes: too many for the store", e.Key, size)
	}
	// json.Marshal of the entry would read each value once more.
	b = slices.Grow(b, size)
	b = append(b, '\n')
	head := len(b)
	b = append(b, "00000000 "...)
	body := len(b)
	b = strconv.AppendUint(append(b, `{"n":`...), e.N, 10)
	b = append(append(b, `,"k":`...), key...)
	b = append(append(b, `,"v":`...), e.Val...)
	b = append(b, '}')
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(b[body:], castagnoli))
	hex.Encode(b[head:], sum[:])
	return append(b, '\n'), nil
}

// parseRecord reads a line; false if it is damaged.
func parseRecord(line []byte) (e entry, ok bool) {
	const start = 9 // CRC and space
	if len(line) <= start || len(line) > start+maxRecord || line[start-1] != ' ' {
		return e, false
	}
	var sum [4]byte
	if _, err := hex.Decode(sum[:], line[:start-1]); err != nil {
		return e, false
	}
	j := line[start:]
	if got := crc32.Checksum(j, castagnoli); sum != [4]byte{byte(got >> 24), byte(got >> 16), byte(got >> 8), byte(got)} {
		return e, false
	}
	if json.Unmarshal(j, &e) != nil || e.Key == "" {
		return e, false
	}
	return e, true
}

// contents is what a log came to.
type contents struct {
	values map[string]json.RawMessage
	count  int // records read, superseded ones included
	last   uint64

	damaged int    // stretches that are no record, the tail apart
	missing uint64 // records that the counting shows to have been there
	torn    int    // bytes of an unfinished record at the end
}

// parseLog reads a log. Nothing in b can make it fail.
func parseLog(b []byte) contents {
	c := contents{values: map[string]json.RawMessage{}}
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		b = rest
		if len(line) == 0 {
			continue
		}
		e, ok := parseRecord(line)
		if !ok {
			if !ended {
				c.torn = len(line)
			} else {
				c.damaged++
			}
			continue
		}
		if e.N > c.last+1 {
			c.missing += e.N - c.last - 1
		}
		c.last = max(c.last, e.N)
		c.count++
		if string(e.Val) == "null" || len(e.Val) == 0 {
			delete(c.values, e.Key)
		} else {
			c.values[e.Key] = e.Val
		}
	}
	return c
}
