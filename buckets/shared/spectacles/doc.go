// Package spectacles shares limits with clients of Spectacles.
package spectacles
