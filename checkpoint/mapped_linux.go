package checkpoint

import (
	"syscall"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// dropMapped takes the pages of the file out of this process's memory. They stay in the system's cache, so a page that
// is needed again costs a fault and no read. Without it, a file that grows for hours is all counted as ours. The
// transaction keeps the mapping in place.
func dropMapped(tx *bolt.Tx) error {
	data := tx.DB().Info().Data
	if data == 0 {
		return nil
	}
	// go vet cannot see that the address is of a mapping, which no collector moves.
	mapped := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&data))), tx.Size())
	return syscall.Madvise(mapped, syscall.MADV_DONTNEED)
}
