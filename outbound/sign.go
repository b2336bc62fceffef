package outbound

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"errors"

	"github.com/holdfast-run/holdfast/fault"
)

// Sign gives the hex HMAC-SHA512 of a body under a key that the receiver has as well (EV-04).
func Sign(key string, body []byte) string {
	mac := hmac.New(sha512.New, []byte(key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// Why is the text of an error of Do without its cause, which is for the server's own log.
func Why(err error) string {
	var classified *fault.Error
	if errors.As(err, &classified) {
		return classified.Message
	}
	return "The call failed."
}
