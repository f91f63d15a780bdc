package awstest

import (
	"encoding/json"
	"fmt"
)

// Error is an error of the API, in its own words.
type Error struct {
	Status        int
	Code, Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// bad returns the error for an invalid request.
func bad(code, format string, args ...any) *Error {
	return &Error{Status: 400, Code: code, Message: fmt.Sprintf(format, args...)}
}

// These are the errors that tests inject most often.
var (
	Throttled    = &Error{503, "RequestLimitExceeded", "Request limit exceeded."}
	Internal     = &Error{500, "InternalError", "An internal error has occurred"}
	Unavailable  = &Error{503, "Unavailable", "The service is unavailable. Please try again shortly."}
	Unauthorized = &Error{403, "UnauthorizedOperation", "You are not authorized to perform this operation."}
	AuthFailure  = &Error{401, "AuthFailure", "AWS was not able to validate the provided access credentials"}
	ExpiredToken = &Error{400, "ExpiredToken", "The provided token has expired."}
)

// denied returns the error for an action that the account's policies do not allow.
func denied(service, action, user string) *Error {
	code := "AccessDenied"
	text := fmt.Sprintf("User: %s is not authorized to perform: %s:%s because no identity-based policy allows the %s:%s action", user, service, action, service, action)
	if service == ec2Service {
		code, text = Unauthorized.Code, Unauthorized.Message+" "+text
	}
	return &Error{403, code, text}
}

// write writes the error in the format of its service.
func (e *Error) write(service, id string) []byte {
	if service == quotasService {
		text, _ := json.Marshal(map[string]string{"__type": e.Code, "message": e.Message})
		return text
	}
	x := &answer{}
	body := func() {
		x.always("Code", e.Code)
		x.always("Message", e.Message)
	}
	if service == ec2Service {
		x.within("Response", func() {
			x.within("Errors", func() { x.within("Error", body) })
			x.always("RequestID", id)
		})
		return x.b
	}
	x.within("ErrorResponse", func() {
		x.within("Error", func() {
			kind := "Sender"
			if e.Status >= 500 {
				kind = "Receiver"
			}
			x.always("Type", kind)
			body()
		})
		x.always("RequestId", id)
	})
	return x.b
}
