package testdb

import "syscall"

// room is what a memory disk must have free to be worth filling: the databases of the tests
// that run side by side, the log of their changes, and as much again.
const room = 4 << 30

// memoryDisk is where Linux keeps files in memory, if there is room; else "", the usual
// temporary folder. A new database is 800 files, which cost a disk's file system ten times the
// work; and nobody waits for others' writes.
func memoryDisk() string {
	const dir, tmpfs = "/dev/shm", 0x01021994
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil || int64(disk.Type) != tmpfs || disk.Bavail*uint64(disk.Bsize) < room {
		return ""
	}
	if syscall.Access(dir, 2) != nil { // W_OK
		return ""
	}
	return dir
}
