package checkpoint

import (
	"maps"
	"time"

	bolt "go.etcd.io/bbolt"
)

// bucketSamples is made by the first commit that has samples. A version that does not know it leaves it alone, and loses
// it in a rewrite of the rows, so it does not raise the schema.
const bucketSamples = "samples"

// samplesEvery is how long samples may wait for a commit that rows cause.
const samplesEvery = 10 * time.Second

// Note keeps values beside the rows, under keys of the caller's choice; an empty value removes its key. It does not wait:
// they are stored with the next commit that rows cause, and after 10 s without one, or when the store is closed. The values
// must not be changed afterwards. It is for what a run tells of itself and can do without: nothing is said if it is lost.
func (s *Store) Note(samples map[uint64][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal() != nil {
		return
	}
	if s.next.samples == nil {
		s.next.samples = map[uint64][]byte{}
	}
	maps.Copy(s.next.samples, samples)
}

// Samples calls fn for each value that Note stored, in the order of keys, and stops at its first error. A value that fails
// its checksum is left out. fn must not keep the value.
func (s *Store) Samples(fn func(key uint64, value []byte) error) error {
	var own error
	err := s.view(func(tx *bolt.Tx) error {
		own = eachSample(tx, fn)
		return own
	})
	if own != nil {
		return own
	}
	return err
}

func eachSample(tx *bolt.Tx, fn func(key uint64, value []byte) error) error {
	bucket := tx.Bucket([]byte(bucketSamples))
	if bucket == nil {
		return nil
	}
	return bucket.ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return nil
		}
		key := [8]byte(k)
		value, err := unseal(v, key)
		if err != nil {
			return nil // a damaged sample costs no result
		}
		return fn(seqOf(key), value)
	})
}

func putSamples(tx *bolt.Tx, samples map[uint64][]byte) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte(bucketSamples))
	if err != nil {
		return err
	}
	for k, value := range samples {
		key := keyOf(k)
		if len(value) == 0 {
			err = bucket.Delete(key[:])
		} else {
			err = bucket.Put(key[:], seal(append([]byte(nil), value...), key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copySamples copies all samples to another file.
func (s *Store) copySamples(to *bolt.DB) error {
	all := map[uint64][]byte{}
	err := s.Samples(func(key uint64, value []byte) error {
		all[key] = append([]byte(nil), value...)
		return nil
	})
	if err != nil || len(all) == 0 {
		return err
	}
	return to.Update(func(tx *bolt.Tx) error { return putSamples(tx, all) })
}
