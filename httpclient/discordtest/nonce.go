package discordtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// nonceTime is how long a nonce is remembered. Discord's documentation says "a few minutes".
const nonceTime = 5 * time.Minute

// message is a message with a nonce and enforce_nonce. The server's mu guards all fields.
type message struct {
	created time.Time
	body    []byte // body of the answer to the message
}

// enforceNonces returns a fault for messages whose author has used the same nonce within nonceTime. Such a message gets
// the answer to the first message with the nonce. The engine calls the functions of the fault under its lock, in the
// order in which requests are processed, and after the functions of all rules.
func (s *Server) enforceNonces() discordsim.Fault {
	created := make(map[string]*message)
	create := discordsim.Rule{Method: http.MethodPost, Path: "/channels/{id}/messages"}
	return discordsim.Fault{
		Also: true,
		When: func(call discordsim.Call) bool {
			rec := call.Request.Value.(*record)
			return create.Matches(rec.Method, rec.Path) && bytes.Contains(rec.Body, []byte(`"enforce_nonce"`))
		},
		Edit: func(call discordsim.Call, response *discordsim.Response) {
			rec := call.Request.Value.(*record)
			key := rec.enforcedNonce()
			if key == "" || response.Status >= http.StatusMultipleChoices {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			first := created[key]
			if first == nil || call.Now.Sub(first.created) >= nonceTime {
				rec.message = &message{created: call.Now, body: response.Body}
				created[key] = rec.message
				return
			}
			rec.Repeated, rec.message = true, first
			response.Body = first.body
		},
	}
}

// enforcedNonce returns a key for which only one message may be created: the author and the nonce. If no nonce is
// enforced, it returns "".
func (r *record) enforcedNonce() string {
	var fields struct {
		Nonce   json.RawMessage `json:"nonce"`
		Enforce bool            `json:"enforce_nonce"`
	}
	if json.Unmarshal(r.Body, &fields) != nil || !fields.Enforce {
		return ""
	}
	switch nonce := string(fields.Nonce); nonce {
	case "", "null", `""`:
		return ""
	default:
		return r.Header.Get("Authorization") + " " + nonce
	}
}

// answerRepeated reports whether the request repeats a message. If so, answerRepeated answers with the body of the
// first answer, and the function of Handle must not run.
func (r *record) answerRepeated(response *discordsim.Response) bool {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if r.Repeated {
		response.Body = r.message.body
	}
	return r.Repeated
}
