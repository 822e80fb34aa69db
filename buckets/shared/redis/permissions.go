package redis

// Permissions are the commands that a user of the server needs. A cluster also needs cluster|slots and cluster|shards,
// Sentinels need role (of the primary), and a database other than 0 needs select. With info, Open can check the memory
// policy.
//
// ACLRules also allows the keys and channels. Open reports the first command that the user may not use.
var Permissions = []string{
	// Used by this package.
	"eval", "evalsha", "ping", "subscribe",
	// Used in scripts.
	"get", "pexpire", "pttl", "publish", "set", "time", "type",
}

// ACLRules returns the arguments of ACL SETUSER that follow the user's name and password. They allow the commands of
// Permissions on the keys and channels of one application only. A name that is not valid for WithApplication could
// widen the rules; for such a name ACLRules returns an error that wraps ErrApplication.
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

// keyPatterns returns patterns for all keys of an application, and for the keys of WithAddress, which all applications
// share.
func keyPatterns(application string) []string {
	return []string{prefix(application) + "*", addressKey("*")}
}

// protocol is a copy of the constant of buckets/shared.
const protocol = "rl2:"

// prefix begins all keys and channels of an application.
func prefix(application string) string { return protocol + "{" + application + "}:" }

// addressKey returns the key that counts the invalid responses of an IP address.
func addressKey(address string) string { return protocol + "ip:{" + address + "}" }

// probes use the commands of scripts without harm. $2 is a key that lives for a second, and $3 a channel without
// subscribers. TIME is first, to detect a server that accepts no writes after it.
var probes = [][]string{
	{"time"},
	{"type", "$2"},
	{"set", "$2", "1", "PX", "1000"},
	{"get", "$2"},
	{"pttl", "$2"},
	{"pexpire", "$2", "0"},
	{"publish", "$3", ""},
}
