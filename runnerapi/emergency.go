package runnerapi

import (
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// emergencyState takes a state that tofu could not publish, under the capability for that
// alone: its attempt, and all of its authority, may have ended.
func (s *server) emergencyState(c *call) (any, error) {
	id, err := ids.Parse[ids.Attempt](c.id())
	if err != nil {
		return nil, err
	}
	kept, err := s.Recovery.TakeEmergency(c.ctx(), c.token(), id, c.r.Header.Get(wire.HeaderSHA256), c.r.Body)
	if err != nil {
		return nil, err
	}
	return wire.EmergencyKept{ID: string(kept.ID), SHA256: kept.SHA256, Size: kept.Size}, nil
}
