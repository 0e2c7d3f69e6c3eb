/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/site/site.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/parse.h"
#include "daemon/web/listen.h"
#include "ledger/policy.h"
#include "sched/tuning.h"
#include "text/units.h"

#define LINE_BYTES 1024
#define GROUP	   "allot" /* its members manage all users' tenants */

enum site_kind { KIND_SIZE, KIND_PART, KIND_NUMBER, KIND_PRIORITY, KIND_SWITCH,
		 KIND_TIME };

/* Words have one %s, for the value. */
static const struct site_word {
	const char *name;
	enum site_kind kind;
	uint32_t most; /* of a number, or of a part if not 0 */
	const char *words;
} keys[SITE_KEYS] = {
	[SITE_MEMORY] = {"memory", KIND_SIZE, 0,
			 "a tenant has a quota of %s on each device, if it asks for none"},
	[SITE_MEMORY_MAX] = {"memory-max", KIND_SIZE, 0,
			     "a user's tenants have quotas of at most %s together on each device"},
	[SITE_COMPUTE] = {"compute", KIND_PART, 0,
			  "a tenant has at most %s of each device's time, if it asks for no share"},
	[SITE_COMPUTE_MAX] = {"compute-max", KIND_PART, 0,
			      "a user's tenants have at most %s of each device's time together"},
	[SITE_WEIGHT] = {"weight", KIND_NUMBER, POLICY_WEIGHT_MAX,
			 "a tenant has a weight of %s, if it asks for no share"},
	[SITE_WEIGHT_MAX] = {"weight-max", KIND_NUMBER, POLICY_WEIGHT_MAX,
			     "a user's tenants have weights of at most %s together"},
	[SITE_PRIORITY_MAX] = {"priority-max", KIND_PRIORITY, 0,
			       "a tenant's priority is %s or less"},
	[SITE_FLOOR_MAX] = {"floor-max", KIND_PART, POLICY_FLOOR_MOST,
			    "a tenant keeps at most %s of each device's time beside higher priorities"},
	[SITE_LATENCY_MIN] = {"latency-min", KIND_TIME, POLICY_LATENCY_MOST_US,
			      "a tenant may ask for a latency of %s or more"},
	[SITE_TENANTS] = {"tenants", KIND_NUMBER, 128, "a user has at most %s tenants at once"},
	[SITE_METER] = {"meter", KIND_SWITCH, 0,
			"a tenant is measured (%s) where nothing limits its use of compute, if it does "
			"not say"},
	[SITE_ACCOUNTING_DRIVER] = {"accounting-driver", KIND_SWITCH, 0,
				    "a tenant may be asked for with --accounting driver: %s"},
};

enum { RANK_LOW, RANK_NORMAL, RANK_HIGH };
static const char *const priorities[] = {
	[RANK_LOW] = "low", [RANK_NORMAL] = "normal", [RANK_HIGH] = "high"};
static const char *const switches[] = {"off", "on"};
static const char *const overpromises[] = {
	[SITE_ALLOW] = "allow", [SITE_WARN] = "warn", [SITE_REFUSE] = "refuse"};

struct reading {
	struct site site;
	struct site_rule **end, *rule; /* NULL: before the first section */
	unsigned int line;
	bool wrong, lost; /* in a section that is wrong: its keys are nobody's */
	bool kube;	  /* in that of Kubernetes */
	unsigned int kube_line; /* where that begins; 0: nowhere */
	unsigned int control_line; /* likewise of control, or of its token */
	site_say *say;
	void *arg;
};

__attribute__((format(printf, 3, 4))) static void site_tell(struct reading *r, bool wrong,
							    const char *fmt, ...)
{
	char words[LINE_BYTES + 256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	r->wrong |= wrong;
	r->say(r->arg, r->line, wrong, words);
}

/* In place: without white space around it. */
static char *site_trim(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	n = strlen(s);
	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	return s;
}

/* --- Sections --------------------------------------------------------------------------------- */

/* Most bytes of an entry about a user, or about a group with its members. */
#define ENTRY_BYTES (1 << 20)

/* The number of a name, with `text` for the rest of its entry. 0, ERANGE: that is too small, or errno. */
typedef int site_number(const char *name, char *text, size_t bytes, uint32_t *ret);

static int site_user_number(const char *name, char *text, size_t bytes, uint32_t *ret)
{
	struct passwd entry, *found = NULL;
	int r = getpwnam_r(name, &entry, text, bytes, &found);

	if (!r && found)
		*ret = found->pw_uid;
	return r ? r : found ? 0 : ENOENT;
}

static int site_group_number(const char *name, char *text, size_t bytes, uint32_t *ret)
{
	struct group entry, *found = NULL;
	int r = getgrnam_r(name, &entry, text, bytes, &found);

	if (!r && found)
		*ret = found->gr_gid;
	return r ? r : found ? 0 : ENOENT;
}

/*
 * By functions that other threads may be in, too, as one may be waiting for an answer that does not
 * come. -ENOENT: nobody is called so.
 */
static int site_look_up(site_number *number, const char *name, uint32_t *ret)
{
	char *text = NULL, *more;
	int r = ERANGE;

	for (size_t n = 4096; r == ERANGE && n <= ENTRY_BYTES; n *= 4) {
		more = realloc(text, n);
		text = more ? more : text;
		r = more ? number(name, text, n, ret) : ENOMEM;
	}
	free(text);
	return r ? -ENOENT : 0;
}

static int site_find_user(const char *name, uint32_t *ret)
{
	uint64_t id;

	if (site_look_up(site_user_number, name, ret) < 0) {
		if (parse_u64(name, 1, (uid_t)-2, &id) < 0)
			return -ENOENT;
		*ret = (uint32_t)id;
	}
	return *ret ? 0 : -EPERM;
}

static int site_find_group(const char *name, uint32_t *ret)
{
	uint64_t id;

	if (!site_look_up(site_group_number, name, ret))
		return 0;
	if (parse_u64(name, 0, (gid_t)-2, &id) < 0)
		return -ENOENT;
	*ret = (uint32_t)id;
	return 0;
}

static void site_find_managers(struct site *site)
{
	uint32_t gid = 0;

	site->has_managers = !site_look_up(site_group_number, GROUP, &gid);
	site->managers = gid;
}

static int site_find_cgroup(const char *path, char ret[static PATH_MAX])
{
	size_t n = strlen(path);

	if (path[0] != '/' || n < 2 || n >= PATH_MAX || path[n - 1] == '/' || strstr(path, "//") ||
	    strstr(path, "/../") || strstr(path, "/./"))
		return -EINVAL;
	memcpy(ret, path, n + 1);
	return 0;
}

static bool site_is_twice(const struct site *site, const struct site_rule *rule)
{
	for (const struct site_rule *o = site->rules; o; o = o->next)
		if (o->who == rule->who && o->id == rule->id && !strcmp(o->cgroup, rule->cgroup))
			return true;
	return false;
}

static void site_begin_kube(struct reading *r)
{
	r->kube = true;
	r->rule = NULL;
	r->lost = false;
	if (r->kube_line)
		site_tell(r, true, "it has a section already; put both together");
	else
		site_tell(r, false, "for Kubernetes:");
	r->kube_line = r->line;
}

static void site_begin_section(struct reading *r, char *text)
{
	char *name = text + strcspn(text, " \t");
	struct site_rule *rule = calloc(1, sizeof(*rule));
	int error = rule ? 0 : -ENOMEM;

	if (*name)
		*name++ = '\0';
	name = site_trim(name);
	r->rule = NULL;
	r->lost = true;
	if (error) {
		site_tell(r, true, "out of memory");
	} else if (!strcmp(text, "default") && !*name) {
		rule->who = SITE_DEFAULT;
		site_tell(r, false, "for all users, where nothing else is said:");
	} else if (!strcmp(text, "user") && *name) {
		rule->who = SITE_USER;
		error = site_find_user(name, &rule->id);
		site_tell(r, error, error == -EPERM ? "[user %s]: root is not bounded"
				    : error	     ? "[user %s]: there is no such user"
						     : "for user %s:", name);
	} else if (!strcmp(text, "group") && *name) {
		rule->who = SITE_GROUP;
		error = site_find_group(name, &rule->id);
		site_tell(r, error, error ? "[group %s]: there is no such group"
					  : "for users of group %s:", name);
	} else if (!strcmp(text, "cgroup") && *name) {
		rule->who = SITE_CGROUP;
		error = site_find_cgroup(name, rule->cgroup);
		site_tell(r, error, error ? "[cgroup %s]: write its path from the top, like "
					    "[cgroup /slurm/uid_1000]"
					  : "for what runs in cgroup %s or below it:", name);
	} else {
		error = -EINVAL;
		site_tell(r, true, "[%s%s%s]: write [default], [user NAME], [group NAME], "
				   "[cgroup PATH] or [kubernetes]", text, *name ? " " : "", name);
	}
	if (!error && site_is_twice(&r->site, rule)) {
		error = -EEXIST;
		site_tell(r, true, "it has a section already; put both together");
	}
	if (error) {
		free(rule);
		return;
	}
	*r->end = rule;
	r->end = &rule->next;
	r->rule = rule;
	r->lost = false;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static int site_parse(const struct site_word *key, const char *text, struct site_value *ret)
{
	uint64_t number;
	int i;

	switch (key->kind) {
	case KIND_SIZE:
		return parse_quota(text, &ret->size);
	case KIND_PART:
		if (parse_permille(text, &ret->number) < 0)
			return -EINVAL;
		return key->most && ret->number > key->most ? -EINVAL : 0;
	case KIND_NUMBER:
		if (parse_u64(text, 1, key->most, &number) < 0)
			return -EINVAL;
		ret->number = (uint32_t)number;
		return 0;
	case KIND_TIME:
		if (parse_duration_us(text, key->most, &number) < 0 ||
		    number < POLICY_LATENCY_LEAST_US)
			return -EINVAL;
		ret->number = (uint32_t)number;
		return 0;
	case KIND_PRIORITY:
		i = parse_word(text, priorities, RANK_HIGH + 1);
		ret->number = (uint32_t)i;
		return i < 0 ? -EINVAL : 0;
	case KIND_SWITCH:
		i = parse_word(text, switches, 2);
		ret->number = (uint32_t)i;
		return i < 0 ? -EINVAL : 0;
	}
	return -EINVAL;
}

static const char *site_example(const struct site_word *key)
{
	switch (key->kind) {
	case KIND_SIZE:
		return "a size, like 8GiB or 25%";
	case KIND_PART:
		return key->most ? "a percentage up to 50, like 5" : "a percentage, like 25";
	case KIND_PRIORITY:
		return "low, normal or high";
	case KIND_SWITCH:
		return "on or off";
	case KIND_TIME:
		return "a time from 2ms to 1s, like 20ms";
	default:
		return key->most == POLICY_WEIGHT_MAX ? "a whole number from 1 to 1000"
						      : "a whole number from 1 to 128";
	}
}

static struct units_text site_value_words(const struct site_word *key,
					  const struct site_value *value)
{
	struct units_text words;

	switch (key->kind) {
	case KIND_SIZE:
		return value->size.permille ? units_permille(value->size.permille)
					    : units_bytes(value->size.bytes);
	case KIND_PART:
		return units_permille(value->number);
	case KIND_NUMBER:
		snprintf(words.s, sizeof(words.s), "%u", (unsigned int)value->number);
		break;
	case KIND_PRIORITY:
		snprintf(words.s, sizeof(words.s), "%s", priorities[value->number]);
		break;
	case KIND_SWITCH:
		snprintf(words.s, sizeof(words.s), "%s", switches[value->number]);
		break;
	case KIND_TIME:
		return units_duration(value->number * NS_PER_US);
	}
	return words;
}

static void site_take_overpromise(struct reading *r, const char *value)
{
	static const char *const words[] = {
		[SITE_ALLOW] = "quotas on a device may be more together than it has",
		[SITE_WARN] = "where quotas on a device are more together than it has, who asks is "
			      "told",
		[SITE_REFUSE] = "no quota is given by which those on a device are more together than "
				"it has",
	};
	int i = parse_word(value, overpromises, 3);

	if (i < 0) {
		site_tell(r, true, "overpromise = %s: write allow, warn or refuse", value);
		return;
	}
	r->site.overpromise = (enum site_overpromise)i;
	r->site.overpromise_said = true;
	site_tell(r, false, "%s", words[i]);
}

/* A port alone is of this machine alone. */
static void site_take_control(struct reading *r, const char *value)
{
	struct site_control *control = &r->site.control;
	struct listen_address address;
	uint64_t port;
	int n = snprintf(control->address, sizeof(control->address), "%s%s",
			 parse_u64(value, 1, UINT16_MAX, &port) ? "" : "127.0.0.1:", value);

	r->control_line = r->line;
	if (n < 0 || (size_t)n >= sizeof(control->address) ||
	    listen_parse(control->address, &address) < 0)
		site_tell(r, true, "control = %s: write a port, which is of this machine alone, or an "
				   "address in numbers with a port, like 127.0.0.1:9479", value);
	else
		site_tell(r, false, "programs that have the token suspend and resume tenants at http://%s/",
			  control->address);
}

static void site_take_control_token(struct reading *r, const char *value)
{
	struct site_control *control = &r->site.control;

	r->control_line = r->line;
	if (*value != '/' || strlen(value) >= sizeof(control->token)) {
		site_tell(r, true, "control-token = %s: write the file's path from the top", value);
		return;
	}
	memcpy(control->token, value, strlen(value) + 1);
	site_tell(r, false, "the token for that is in %s", value);
}

static void site_take_history(struct reading *r, const char *value)
{
	r->site.no_history = !strcmp(value, "off");
	if (r->site.no_history) {
		site_tell(r, false, "what tenants used is not kept");
	} else if (*value != '/' || strlen(value) >= sizeof(r->site.history)) {
		site_tell(r, true, "history = %s: write off, or the folder's path from the top", value);
	} else {
		memcpy(r->site.history, value, strlen(value) + 1);
		site_tell(r, false, "what tenants used is kept in %s for 90 days", value);
	}
}

/* Keys that are no section's. */
static const struct site_top {
	const char *name;
	void (*take)(struct reading *r, const char *value);
} tops[] = {
	{"overpromise", site_take_overpromise},
	{"control", site_take_control},
	{"control-token", site_take_control_token},
	{"history", site_take_history},
};

/* NULL: it is none of these. */
static const struct site_top *site_find_top(const char *name)
{
	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		if (!strcmp(name, tops[i].name))
			return &tops[i];
	return NULL;
}

static void site_take_value(struct reading *r, const char *name, const char *text)
{
	struct site_value value = {{0}};
	char fmt[256];
	int k = 0;

	while (k < SITE_KEYS && strcmp(name, keys[k].name))
		k++;
	if (k == SITE_KEYS) {
		site_tell(r, true, "%s: there is no such key%s", name,
			  site_find_top(name) ? " in a section; put it before them" : "");
	} else if (r->lost) {
		return;
	} else if (!r->rule) {
		site_tell(r, true, "%s: whose? put it into a section, like [default] or [group NAME]",
			  name);
	} else if (r->rule->said >> k & 1) {
		site_tell(r, true, "%s: it was said before in this section", name);
	} else if (site_parse(&keys[k], text, &value) < 0) {
		site_tell(r, true, "%s = %s: write %s", name, text, site_example(&keys[k]));
	} else {
		struct units_text shown = site_value_words(&keys[k], &value);
		const char *at = strstr(keys[k].words, "%s");

		snprintf(fmt, sizeof(fmt), "%.*s%s%s", (int)(at - keys[k].words), keys[k].words,
			 shown.s, at + 2);
		site_tell(r, false, "%s", fmt);
		value.line = r->line;
		r->rule->said |= 1u << k;
		r->rule->value[k] = value;
	}
}

static void site_take_kube(struct reading *r, const char *name, const char *text)
{
	char why[KUBE_CONF_WHY];
	int error = kube_conf_take(&r->site.kube, name, text, why);

	if (error == -ENOENT)
		site_tell(r, true, "%s: there is no such key in [kubernetes]", name);
	else if (error < 0)
		site_tell(r, true, "%s = %s: %s", name, text, why);
	else
		site_tell(r, false, "%s is %s", name, text);
}

static void site_take_line(struct reading *r, char *line)
{
	char *text = site_trim(line), *equals;
	size_t n = strlen(text);

	if (!*text || *text == '#')
		return;
	if (*text == '[') {
		r->rule = NULL;
		r->kube = false;
		r->lost = true;
		if (text[n - 1] != ']') {
			site_tell(r, true, "%s: the section's name does not end; write ]", text);
			return;
		}
		text[n - 1] = '\0';
		if (!strcmp(site_trim(text + 1), "kubernetes"))
			site_begin_kube(r);
		else
			site_begin_section(r, site_trim(text + 1));
		return;
	}
	equals = strchr(text, '=');
	if (!equals) {
		site_tell(r, true, "%s: write it as key = value", text);
		return;
	}
	*equals = '\0';
	text = site_trim(text);
	if (r->kube)
		site_take_kube(r, text, site_trim(equals + 1));
	else if (site_find_top(text) && !r->rule && !r->lost)
		site_find_top(text)->take(r, site_trim(equals + 1));
	else
		site_take_value(r, text, site_trim(equals + 1));
}

/* --- The whole -------------------------------------------------------------------------------- */

static const struct site_rule *site_default(const struct site *site)
{
	const struct site_rule *rule = site->rules;

	while (rule && rule->who != SITE_DEFAULT)
		rule = rule->next;
	return rule;
}

static const struct site_value *site_value_of(const struct site_rule *rule, enum site_key key)
{
	return rule && (rule->said >> key & 1) ? &rule->value[key] : NULL;
}

/* A part of a device and bytes are compared where devices are known (bounds.c). */
static bool site_is_more(const struct site_value *a, const struct site_value *b)
{
	if (size_spec_is_said(a->size))
		return (b->size.bytes && a->size.bytes > b->size.bytes) ||
		       (b->size.permille && a->size.permille > b->size.permille);
	return a->number > b->number;
}

static void site_check_within(struct reading *r, const struct site_rule *rule, enum site_key key,
			      enum site_key most_key)
{
	const struct site_rule *rest = site_default(&r->site);
	const struct site_value *value = site_value_of(rule, key);
	const struct site_value *most = site_value_of(rule, most_key);

	if (!value && !most)
		return;
	value = value ? value : site_value_of(rest, key);
	most = most ? most : site_value_of(rest, most_key);
	if (!value || !most || !site_is_more(value, most))
		return;
	r->line = value->line;
	site_tell(r, true, "%s = %s: more than %s = %s in line %u: whoever asks for none would be refused",
		  keys[key].name, site_value_words(&keys[key], value).s, keys[most_key].name,
		  site_value_words(&keys[most_key], most).s, most->line);
}

/*
 * Checks each section, with [default] for its missing keys, as for a user of this section alone.
 * The file does not tell if two sections apply to one user: for such a user the lower default
 * counts (bounds_complete).
 */
static void site_check_defaults(struct reading *r)
{
	for (const struct site_rule *rule = r->site.rules; rule; rule = rule->next) {
		site_check_within(r, rule, SITE_MEMORY, SITE_MEMORY_MAX);
		site_check_within(r, rule, SITE_COMPUTE, SITE_COMPUTE_MAX);
		site_check_within(r, rule, SITE_WEIGHT, SITE_WEIGHT_MAX);
	}
}

static void site_check_kube(struct reading *r)
{
	char why[KUBE_CONF_WHY];

	r->line = r->kube_line;
	if (r->kube_line && kube_conf_complete(&r->site.kube, why) < 0)
		site_tell(r, true, "[kubernetes]: %s", why);
}

static void site_check_control(struct reading *r)
{
	const struct site_control *control = &r->site.control;

	r->line = r->control_line;
	if (*control->address && !*control->token)
		site_tell(r, true, "control: whoever reaches that address could suspend every tenant; say "
				   "who may, by control-token = FILE");
	else if (*control->token && !*control->address)
		site_tell(r, true, "control-token: for which address? write control = PORT, too");
}

int site_read(FILE *in, site_say *say, void *arg, struct site *ret)
{
	struct reading r = {.say = say, .arg = arg};
	char line[LINE_BYTES];

	r.end = &r.site.rules;
	/* The line's buffer has no zero after the text that is read. */
	while (fgets(memset(line, '\n', sizeof(line)), sizeof(line), in)) {
		r.line++;
		if (memrchr(line, '\0', sizeof(line)) != line + strlen(line)) {
			site_tell(&r, true, "a zero is in it: the file is damaged, as by a crash");
			break;
		}
		if (!strchr(line, '\n') && !feof(in)) {
			site_tell(&r, true, "longer than %d bytes", LINE_BYTES - 2);
			break;
		}
		site_take_line(&r, line);
	}
	if (!r.line && !ferror(in))
		site_tell(&r, true, "the file is empty, as if cut; if nobody is to be bounded, remove it, "
				    "or have a remark in it");
	site_check_defaults(&r);
	site_check_kube(&r);
	site_check_control(&r);
	if (ferror(in) || r.wrong) {
		site_free(&r.site);
		return ferror(in) ? -EIO : -EINVAL;
	}
	site_find_managers(&r.site);
	*ret = r.site;
	return 0;
}

int site_none(struct site *ret)
{
	*ret = (struct site){.rules = NULL};
	site_find_managers(ret);
	return 0;
}

void site_free(struct site *site)
{
	struct site_rule *next;

	for (struct site_rule *rule = site->rules; rule; rule = next) {
		next = rule->next;
		free(rule);
	}
	site->rules = NULL;
}

bool site_bounds(const struct site *site)
{
	return site->rules || site->overpromise_said;
}

/* --- The section of a user -------------------------------------------------------------------- */

/* Each line of /proc/PID/cgroup ends with a path, behind its second colon. */
static bool site_is_in_cgroup(const char *lines, const char *cgroup)
{
	size_t n = strlen(cgroup);

	while (lines && *lines) {
		const char *path = strchr(lines, ':');

		path = path ? strchr(path + 1, ':') : NULL;
		if (path && !strncmp(path + 1, cgroup, n) &&
		    (path[1 + n] == '/' || path[1 + n] == '\n' || !path[1 + n]))
			return true;
		lines = strchr(lines, '\n');
		lines = lines ? lines + 1 : NULL;
	}
	return false;
}

static bool site_is_of_group(const struct site_member *member, gid_t gid)
{
	for (size_t i = 0; i < member->ngroups; i++)
		if (member->groups[i] == gid)
			return true;
	return false;
}

bool site_is_managed_by(const struct site *site, const struct site_member *member)
{
	return !member->uid ||
	       (site->has_managers && site_is_of_group(member, site->managers));
}

static bool site_is_meant(const struct site_rule *rule, const struct site_member *member)
{
	switch (rule->who) {
	case SITE_USER:
		return rule->id == member->uid;
	case SITE_GROUP:
		return site_is_of_group(member, rule->id);
	case SITE_CGROUP:
		return site_is_in_cgroup(member->cgroups, rule->cgroup);
	default:
		return true;
	}
}

static bool site_is_nearer(const struct site_rule *a, const struct site_rule *b)
{
	return !b || a->who < b->who ||
	       (a->who == b->who && strlen(a->cgroup) > strlen(b->cgroup));
}

/* Limits that a site with a file has to raise explicitly. */
static const struct site_value *site_usual(const struct site *site, enum site_key key)
{
	static const struct site_value priority = {.number = RANK_NORMAL},
				       floor = {.number = POLICY_FLOOR_PERMILLE},
				       latency = {.number = TUNING_LATENCY_NS / NS_PER_US};

	if (!site_bounds(site))
		return NULL;
	return key == SITE_PRIORITY_MAX	  ? &priority
	       : key == SITE_FLOOR_MAX	  ? &floor
	       : key == SITE_LATENCY_MIN ? &latency
					  : NULL;
}

const struct site_value *site_find(const struct site *site, const struct site_member *member,
				   enum site_key key)
{
	const struct site_rule *found = NULL;

	for (const struct site_rule *rule = site->rules; rule; rule = rule->next)
		if ((rule->said >> key & 1) && site_is_meant(rule, member) &&
		    site_is_nearer(rule, found))
			found = rule;
	return found ? &found->value[key] : site_usual(site, key);
}
