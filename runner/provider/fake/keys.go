package fake

// keyring is the memory behind Config.HonourKeys: which keys have been answered, and which are being answered. Answers
// are functions of the body, so a key keeps the hash of its body and no answer. Not safe for concurrent use.
type keyring struct {
	done    map[uint64]uint64        // key to body
	pending map[uint64]chan struct{} // closed when the first call with the key has ended
	max     int
}

type standingKey uint8

const (
	keyFresh   standingKey = iota // the caller answers it and calls end
	keyWait                       // another call with it is being answered: wait, then begin again
	keyAgain                      // answered before with this body
	keyAnother                    // answered before with another body
)

func newKeyring(limit int) keyring {
	return keyring{done: map[uint64]uint64{}, pending: map[uint64]chan struct{}{}, max: limit}
}

func (k *keyring) begin(c *call) (standingKey, <-chan struct{}) {
	if body, ok := k.done[c.lockID]; ok {
		if body != c.bodyID {
			return keyAnother, nil
		}
		return keyAgain, nil
	}
	if ch, ok := k.pending[c.lockID]; ok {
		return keyWait, ch
	}
	k.pending[c.lockID] = make(chan struct{})
	return keyFresh, nil
}

// end wakes those that wait; a billed call's answer is what they get.
func (k *keyring) end(c *call, billed bool) {
	if billed && len(k.done) < k.max {
		k.done[c.lockID] = c.bodyID
	}
	close(k.pending[c.lockID])
	delete(k.pending, c.lockID)
}

// drop lets all go that wait.
func (k *keyring) drop() {
	for _, ch := range k.pending {
		close(ch)
	}
}
