package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestRowSkipsFutureFields(t *testing.T) {
	op := testOperation(1)
	op.Seq = 7
	row := appendRow(nil, op)
	row = appendUint(row, 900, 5)
	row = appendString(row, 901, "later")
	row = append(row, fieldAttempt<<1|kindBytes, 3, 200<<1&0x7f|0x80, 3, 1)
	want := *op
	want.Attempts = append(want.Attempts, Attempt{Provider: op.Provider, Model: op.Model, RequestID: op.RequestID}) // it says nothing else
	key := keyOf(7)
	var got Operation
	if err := newDecoder().row(&got, key, seal(row, key)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestRowRefuses(t *testing.T) {
	key := keyOf(7)
	whole := seal(appendRow(nil, testOperation(1)), key)
	huge := binary.AppendUvarint([]byte{rowVersion, fieldID<<1 | kindBytes}, 1<<62)
	for name, tt := range map[string]struct {
		key  [8]byte
		row  []byte
		want error
	}{
		"nothing":        {key, nil, ErrDamaged},
		"cut":            {key, whole[:len(whole)-1], ErrDamaged},
		"another's key":  {keyOf(8), whole, ErrDamaged},
		"newer version":  {key, seal([]byte{rowVersion + 1}, key), ErrVersion},
		"huge length":    {key, seal(huge, key), ErrDamaged},
		"tag alone":      {key, seal([]byte{rowVersion, fieldID<<1 | kindBytes}, key), ErrDamaged},
		"endless varint": {key, seal([]byte{rowVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, key), ErrDamaged},
	} {
		var op Operation
		if err := newDecoder().row(&op, tt.key, tt.row); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestExtremeTimes(t *testing.T) {
	for in, want := range map[time.Time]time.Time{
		{}:                   {},
		time.Unix(0, 0):      time.Unix(0, 1),
		time.Unix(-5, 3):     time.Unix(-5, 3),
		time.Unix(1<<40, 0):  time.Unix(0, 1<<63-1),
		time.Unix(-1<<40, 0): time.Unix(0, -1<<63),
	} {
		key := keyOf(1)
		var op Operation
		if err := newDecoder().row(&op, key, seal(appendRow(nil, &Operation{Created: in}), key)); err != nil || !op.Created.Equal(want) {
			t.Errorf("%v came back as %v, %v; want %v", in, op.Created, err, want)
		}
	}
}

func FuzzRow(f *testing.F) {
	f.Add(appendRow(nil, testOperation(1)))
	f.Add([]byte{rowVersion, fieldAttempt<<1 | kindBytes, 0})
	f.Fuzz(func(t *testing.T, row []byte) {
		key := keyOf(1)
		var op Operation
		if err := newDecoder().row(&op, key, row); err == nil {
			return // a checksum that fits
		}
		// With the checksum right it may decode. Written again it must then always be read the same.
		if err := newDecoder().row(&op, key, seal(bytes.Clone(row), key)); err != nil {
			return
		}
		var once, twice Operation
		if err := newDecoder().row(&once, key, seal(appendRow(nil, &op), key)); err != nil {
			t.Fatal(err)
		}
		if err := newDecoder().row(&twice, key, seal(appendRow(nil, &once), key)); err != nil || !reflect.DeepEqual(once, twice) {
			t.Fatalf("got  %+v, %v\nwant %+v", twice, err, once)
		}
	})
}

// FuzzVerify damages one place of a whole file: verify must not panic, and what it accepts must be safe for bbolt.
func FuzzVerify(f *testing.F) {
	file, last, before := sample(f)
	f.Add(uint32(9000), uint64(1))
	f.Add(uint32(10), uint64(1<<63))
	f.Fuzz(func(t *testing.T, at uint32, change uint64) {
		bad := append([]byte{}, file...)
		i := int(at) % (len(bad) - 8)
		binary.LittleEndian.PutUint64(bad[i:], binary.LittleEndian.Uint64(bad[i:])^change)
		judge(t, "changed", bad, last, before)
	})
}
