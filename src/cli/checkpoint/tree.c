/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/tree.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/now.h"
#include "base/proc_stat.h"
#include "cli/say/say.h"
#include "node/members.h"

#define NAPS	1000
#define NAP_NS	10000000

struct kin {
	pid_t pid, parent;
};

struct kinship {
	size_t n;
	struct kin *kin;
};

/* 0: it has ended. */
static pid_t tree_parent(pid_t pid)
{
	struct proc_stat stat;

	return proc_stat_read(pid, &stat) ? 0 : (pid_t)stat.word[PROC_STAT_PARENT];
}

static struct kinship tree_read(void)
{
	struct kinship all = {0};
	CLEANUP_DIR DIR *proc = opendir("/proc");
	struct kin *kin;
	int pid;

	while ((pid = dir_next_number(proc)) >= 0) {
		kin = reallocarray(all.kin, all.n + 1, sizeof(*kin));
		if (!kin)
			break;
		all.kin = kin;
		kin[all.n++] = (struct kin){pid, tree_parent(pid)};
	}
	return all;
}

static bool tree_has(const struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->n; i++)
		if (tree->pid[i] == pid)
			return true;
	return false;
}

static bool tree_add(struct tree *tree, pid_t pid)
{
	pid_t *list;

	if (tree_has(tree, pid))
		return true;
	list = reallocarray(tree->pid, tree->n + 1, sizeof(*list));
	if (!list)
		return false;
	tree->pid = list;
	list[tree->n++] = pid;
	return true;
}

/* The last of its ancestors that was started in the tenant. */
static pid_t tree_root(struct members *members, const char *tenant_dir, pid_t pid)
{
	pid_t root = pid;

	for (pid_t up = tree_parent(pid); up > 1; up = tree_parent(up))
		if (members_has(members, tenant_dir, up))
			root = up;
	return root;
}

static bool tree_fill(const char *tenant_dir, const struct pids *pids, struct tree *tree)
{
	struct members members = {0};
	struct kinship all = tree_read();
	bool ok = all.n;

	for (size_t i = 0; ok && i < pids->n; i++)
		ok = tree_add(tree, tree_root(&members, tenant_dir, pids->list[i].pid));
	tree->nroots = tree->n;
	for (size_t i = 0; ok && i < tree->n; i++)
		for (size_t k = 0; ok && k < all.n; k++)
			if (all.kin[k].parent == tree->pid[i])
				ok = tree_add(tree, all.kin[k].pid);
	members_free(&members);
	free(all.kin);
	return ok;
}

int tree_find(const char *tenant_dir, const struct pids *pids, struct tree *ret)
{
	struct tree tree = {0};

	if (!tree_fill(tenant_dir, pids, &tree)) {
		tree_free(&tree);
		return say_error("out of memory");
	}
	*ret = tree;
	return 0;
}

void tree_free(struct tree *tree)
{
	free(tree->pid);
	*tree = (struct tree){0};
}

void tree_signal(const struct tree *tree, int signal)
{
	for (size_t i = 0; i < tree->n; i++)
		kill(tree->pid[i], signal);
}

static void tree_nap(void)
{
	nap_ns(NAP_NS);
}

bool tree_kill(const struct tree *tree)
{
	size_t left = tree->n;

	for (int i = 0; left && i < NAPS; i++) {
		left = 0;
		/* A zombie has no memory, and its parent reaps it. */
		for (size_t k = 0; k < tree->n; k++) {
			char path[64], exe[8];

			snprintf(path, sizeof(path), "/proc/%ld/exe", (long)tree->pid[k]);
			if (readlink(path, exe, sizeof(exe)) < 0)
				continue;
			kill(tree->pid[k], SIGKILL);
			left++;
		}
		if (left)
			tree_nap();
	}
	return !left;
}

int tree_children(struct tree *ret)
{
	struct kinship all = tree_read();
	struct tree tree = {0};
	bool ok = all.n;

	for (size_t i = 0; ok && i < all.n; i++)
		if (all.kin[i].parent == getpid())
			ok = tree_add(&tree, all.kin[i].pid);
	free(all.kin);
	if (!ok) {
		tree_free(&tree);
		return say_error("out of memory");
	}
	*ret = tree;
	return 0;
}

void tree_kill_own(const struct tree *spared)
{
	for (int i = 0; i < NAPS; i++) {
		struct tree now = {0};
		size_t n = 0;

		if (tree_children(&now))
			return;
		for (size_t k = 0; k < now.n; k++) {
			if (tree_has(spared, now.pid[k]))
				continue;
			kill(now.pid[k], SIGKILL);
			waitpid(now.pid[k], NULL, WNOHANG);
			n++;
		}
		tree_free(&now);
		if (!n)
			return;
		tree_nap();
	}
}
