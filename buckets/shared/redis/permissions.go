package redis

// Permissions are the commands that a user of the server needs, and no others. Besides them a cluster needs
// cluster|slots and cluster|shards, Sentinels need role (of the primary), and a database other than 0 needs select.
// With info, Open can check the memory policy.
//
// ACLRules includes the keys and channels. Open reports the first command that is missing.
var Permissions = []string{
	// Used by this package.
	"eval", "evalsha", "ping", "subscribe",
	// Used in scripts.
	"del", "get", "hdel", "hgetall", "hmget", "hset", "pexpire", "publish", "sadd", "set", "smembers", "srem", "time", "type", "zadd", "zcard",
	"zremrangebyscore", "zscore",
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

// keyPatterns returns patterns for all keys of an application, and for those of WithAddress, which all applications
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

// probes use the scripts' commands without harm. $2 to $4 are keys that live for a second: a string, a hash and a
// sorted set. $5 is a channel without subscribers. TIME is first, to detect a server that accepts no writes after it.
var probes = [][]string{
	{"time"},
	{"type", "$2"},
	{"set", "$2", "1", "PX", "1000"},
	{"get", "$2"},
	{"pexpire", "$2", "1000"},
	{"hset", "$3", "f", "1"},
	{"hmget", "$3", "f"},
	{"hgetall", "$3"},
	{"hdel", "$3", "f"},
	{"zadd", "$4", "1", "m"},
	{"zcard", "$4"},
	{"zscore", "$4", "m"},
	{"zremrangebyscore", "$4", "0", "1"},
	{"publish", "$5", ""},
	{"del", "$2", "$3", "$4"},
	{"sadd", "$2", "m"}, // $2 becomes a set
	{"smembers", "$2"},
	{"srem", "$2", "m"},
}
