package redis

// Permissions lists the commands that a user of the server must be allowed to use. In a cluster the user also needs
// cluster|slots and cluster|shards. With Sentinels the user needs role on the primary and the replicas. For a database
// other than 0 the user needs select. With info, Open can check the memory policy.
//
// ACLRules returns rules for these commands, and for the keys and channels. Open reports the first command that the
// user may not use.
var Permissions = []string{
	// Used by this package.
	"eval", "evalsha", "ping", "subscribe",
	// Used in scripts.
	"get", "pexpire", "pttl", "publish", "set", "time", "type",
}

// ACLRules returns the arguments of ACL SETUSER that follow the user's name and password. The rules allow only the
// commands of Permissions, and only the keys and channels of one application and the keys of WithAddress. If the name
// is not valid for WithApplication, ACLRules returns an error that wraps ErrApplication, because such a name could
// allow more keys.
func ACLRules(application string) ([]string, error) {
	if err := checkApplication(application); err != nil {
		return nil, err
	}
	rules := []string{"on", "resetkeys", "resetchannels", "-@all"}
	for _, pattern := range keyPatterns(application) {
		rules = append(rules, "~"+pattern)
	}
	rules = append(rules, "&"+prefix(application)+"*")
	for _, name := range Permissions {
		rules = append(rules, "+"+name)
	}
	return rules, nil
}

// keyPatterns returns patterns for all keys of an application, and for all keys of WithAddress, which several
// applications may share.
func keyPatterns(application string) []string {
	return []string{prefix(application) + "*", addressKey("*")}
}

// protocol is a copy of the constant of buckets/shared.
const protocol = "rl2:"

// prefix returns the beginning of all keys and channels of an application.
func prefix(application string) string { return protocol + "{" + application + "}:" }

// addressKey returns the key for the counts of invalid responses of an IP address.
func addressKey(address string) string { return protocol + "ip:{" + address + "}" }

// probes are harmless uses of the commands that scripts need. $2 stands for a key that lives for a second at most, and
// $3 for a channel without subscribers. TIME is first, to detect servers that accept no writes after TIME.
var probes = [][]string{
	{"time"},
	{"type", "$2"},
	{"set", "$2", "1", "PX", "1000"},
	{"get", "$2"},
	{"pttl", "$2"},
	{"pexpire", "$2", "0"},
	{"publish", "$3", ""},
}
