// Package archive will hold the safe reading of configuration archives.
package archive
