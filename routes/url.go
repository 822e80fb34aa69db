package routes

import "strings"

// splitURL returns the path in raw, which is a URL or a path alone. The path has no query and no fragment. offset is
// the position of the path in raw.
func splitURL(raw string) (path string, offset int, err *PathError) {
	if raw == "" {
		return "", 0, &PathError{Offset: -1, Err: ErrEmptyPath}
	}
	if raw[0] != '/' {
		if offset, err = afterHost(raw); err != nil {
			return "", 0, err
		}
	}
	path, _, _ = strings.Cut(raw[offset:], "?")
	path, _, _ = strings.Cut(path, "#")
	if path == "" { // https://discord.com
		return "/", offset, nil
	}
	return path, offset, nil
}

// afterHost returns the position at which the host of an http or https URL ends.
func afterHost(raw string) (int, *PathError) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return 0, &PathError{Offset: 0, Err: ErrNotAbsolute}
	}
	start := len(raw) - len(rest)
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	end := start + len(host)
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if host == "" {
		return 0, &PathError{Offset: start, Err: ErrNotAbsolute}
	}
	if IsMediaHost(host) {
		return 0, &PathError{Offset: start, Err: ErrNotAPI}
	}
	return end, nil
}

// IsMediaHost reports whether a host, with or without a port, serves Discord's attachments, avatars and previews, such
// as cdn.discordapp.com, media.discordapp.net and images-ext-1.discordapp.net. The API's limits do not apply to these
// hosts. IsMediaHost does not allocate.
func IsMediaHost(host string) bool {
	label, domain := discordDomain(host)
	const images = "images-"
	return domain != "" && (strings.EqualFold(label, "cdn") || strings.EqualFold(label, "media") ||
		len(label) > len(images) && strings.EqualFold(label[:len(images)], images))
}

// IsAPIHost reports whether Discord's API limits apply to a host, with or without a port. These hosts are discord.com,
// discordapp.com, and their subdomains, except media hosts. The case does not matter. IsAPIHost does not allocate.
func IsAPIHost(host string) bool {
	_, domain := discordDomain(host)
	return domain != "" && domain != mediaDomain && !IsMediaHost(host)
}

// mediaDomain is the domain of Discord's media. It has no API.
const mediaDomain = "discordapp.net"

// discordDomain returns the domain of Discord to which a host belongs, and the label before the domain, if there is
// one. For all other hosts, and for invalid ones, domain is "".
func discordDomain(host string) (label, domain string) {
	name, port, _ := strings.Cut(host, ":")
	name = strings.TrimSuffix(name, ".")
	for _, domain := range [...]string{"discord.com", "discordapp.com", mediaDomain} {
		above := len(name) - len(domain)
		switch {
		case above < 0 || !strings.EqualFold(name[above:], domain) || strings.Contains(port, ":"):
		case above == 0:
			return "", domain
		case name[above-1] == '.':
			label = name[:above-1]
			if label == "" || strings.ContainsAny(label, "/@[]") {
				return "", ""
			}
			return label[strings.LastIndexByte(label, '.')+1:], domain
		}
	}
	return "", ""
}

// trimPrefix removes all segments such as /api and /v10 from the front of a clean path.
func trimPrefix(path string) string {
	for {
		segment, rest := cutSegment(path)
		if !isPrefix(segment) {
			return path
		}
		if rest == "" {
			return "/"
		}
		path = rest
	}
}

// afterMount returns the rest of a clean path after the first /api with a version, such as /api/v10, inside the path.
// found is false if there is none. A proxy may be mounted below a path of its own.
func afterMount(path string) (rest string, found bool) {
	const api = "/api/v"
	for from := 0; ; {
		at := strings.Index(path[from:], api)
		if at < 0 {
			return "", false
		}
		from += at + len("/api")
		if version, below := cutSegment(path[from:]); below != "" && isPrefix(version) {
			return trimPrefix(below), true
		}
	}
}

// isPrefix reports whether a segment is "api" or a version such as "v10".
func isPrefix(segment string) bool {
	version, ok := strings.CutPrefix(segment, "v")
	return segment == "api" || ok && isDigits(version)
}
