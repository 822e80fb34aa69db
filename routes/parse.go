package routes

import "strings"

// Parse returns the Route whose String method returns text, such as "POST /channels/{channel_id}/messages". Use it to
// pass Routes between processes. The text does not contain flags that were passed to [New], so flags that do not follow
// from the template are lost.
//
// The error is a [*PathError] that wraps [ErrMethod], [ErrTemplate] or [ErrTooLong].
func Parse(text string) (Route, error) {
	method, template, _ := strings.Cut(text, " ")
	variant := variantNone
	for v := variantInteraction; v <= variantOld; v++ {
		if shorter, ok := strings.CutSuffix(template, v.suffix()); ok {
			template, variant = shorter, v
		}
	}
	route, err := New(method, template)
	switch {
	case err != nil:
		return Route{}, err
	case variant == variantNone:
		return route, nil
	case variant == variantInteraction && route.MajorKind() == MajorWebhookToken,
		variant > variantInteraction && route == DeleteMessage:
		return route.definition().as(variant), nil
	}
	return Route{}, &PathError{Offset: -1, Err: ErrTemplate}
}
