package devstack

const (
	leastBuffers = 128 << 20 // PostgreSQL's default
	mostBuffers  = 2 << 30
)

// buffers is how many bytes of its data PostgreSQL keeps in memory on a machine with so much.
// Its authors advise a quarter of a machine of its own; with the server, the store and a runner
// beside it, it gets half of that. Memory is taken as data is read, never more than there is data.
func buffers(memory uint64) uint64 {
	return min(max(memory/8, leastBuffers), mostBuffers)
}
