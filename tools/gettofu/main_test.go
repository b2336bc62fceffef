package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/opentofu/tofudl"
	"github.com/opentofu/tofudl/mockmirror"
)

func from(mirror mockmirror.Mirror, key string) []tofudl.ConfigOpt {
	return []tofudl.ConfigOpt{
		tofudl.ConfigGPGKey(key),
		tofudl.ConfigAPIURL(mirror.APIURL()),
		tofudl.ConfigDownloadMirrorURLTemplate(mirror.DownloadMirrorURLTemplate()),
	}
}

func TestGetWritesTheReleasedBinary(t *testing.T) {
	mirror := mockmirror.NewFromBinary(t, []byte("a binary"))
	file := filepath.Join(t.TempDir(), "tofu")

	if err := get(t.Context(), "1.0.0", file, from(mirror, mirror.GPGKey())...); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "a binary" {
		t.Errorf("got %q, %v", content, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("not executable: %v, %v", info.Mode(), err)
	}
}

func TestGetRefusesAnotherSignersBinary(t *testing.T) {
	mirror := mockmirror.NewFromBinary(t, []byte("a binary"))
	stranger := mockmirror.NewFromBinary(t, []byte("a binary"))
	dir := t.TempDir()

	err := get(t.Context(), "1.0.0", filepath.Join(dir, "tofu"), from(mirror, stranger.GPGKey())...)
	if wrong := (*tofudl.SignatureError)(nil); !errors.As(err, &wrong) {
		t.Errorf("a binary signed by somebody else: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("something was written: %v", left)
	}
}
