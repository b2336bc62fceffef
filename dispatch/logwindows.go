package dispatch

import (
	"slices"
	"sync"

	"github.com/holdfast-run/holdfast/ids"
)

const (
	windowSize  = 1 << 20 // bytes of a folded log that are opened at once
	windowsKept = 16
)

// windows keeps the parts of folded logs that were read last. A sealed object opens only
// from its beginning, and clients read a log in thousands of small pieces: without this
// they would make the server open all that came before, each time.
type windows struct {
	mu   sync.Mutex
	kept []window // the one used last at the end
}

// window is a part of a folded log, which never changes.
type window struct {
	object ids.Object
	start  int64
	data   []byte
}

// get gives the window of object that begins at start, where it is kept.
func (w *windows) get(object ids.Object, start int64) (data []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.kept, func(k window) bool { return k.object == object && k.start == start })
	if at < 0 {
		return nil, false
	}
	found := w.kept[at]
	w.kept = append(slices.Delete(w.kept, at, at+1), found)
	return found.data, true
}

// put keeps a window, in place of the one that was not used for longest.
func (w *windows) put(found window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) == windowsKept {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
	w.kept = append(w.kept, found)
}
