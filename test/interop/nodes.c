/* SPDX-License-Identifier: MIT */
/*
 * What is on a ZooKeeper, in a form in which two libraries that wrote down the same thing
 * look the same: random ids become <id>. See interop.h.
 */
#include "interop.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MS 5000
#define NODES_MAX 64
#define NODE_SIZE 256
#define PATH_SIZE 512

/* The nodes of a lock, described. */
struct nodes {
    tree tree;
    int with_data;
    int count;
    char text[NODES_MAX][NODE_SIZE];
};

static void
path_of(char out[PATH_SIZE], const char *name, const char *inside)
{
    CHECK(snprintf(out, PATH_SIZE, NODES_ROOT "/%s%s", name, inside) < PATH_SIZE);
}

static void
enter(tree *out, const server *on)
{
    int code = tree_open(out, on->port, SESSION_MS);
    if (code != 0) {
        FAIL("no session with the ZooKeeper: %d", code);
    }
}

/* an id is a UUID, or the same without its dashes */
static void
without_ids(char out[NODE_SIZE], const char *text)
{
    static const char id[] = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}";
    regex_t pattern;
    regmatch_t match;
    size_t len = 0;
    CHECK(regcomp(&pattern, id, REG_EXTENDED) == 0);
    while (regexec(&pattern, text, 1, &match, 0) == 0) {
        len += (size_t)snprintf(out + len, NODE_SIZE - len, "%.*s<id>", (int)match.rm_so,
                                text);
        CHECK(len < NODE_SIZE);
        text += match.rm_eo;
    }
    regfree(&pattern);
    CHECK((size_t)snprintf(out + len, NODE_SIZE - len, "%s", text) < NODE_SIZE - len);
}

/* the first line of what stands in a node: what others are told there */
static void
first_line(struct nodes *nodes, const char *path, char out[NODE_SIZE])
{
    char *data = tree_read(&nodes->tree, path, NULL);
    out[0] = '\0';
    if (data != NULL) {
        snprintf(out, NODE_SIZE, " '%.*s'", (int)strcspn(data, "\n"), data);
    }
    free(data);
}

/* Nodes that last and have nothing in them say nothing: a server removes such ones. */
static void
describe(struct nodes *nodes, const char *inside, const char *path, const tree_stat *stat)
{
    char line[2 * NODE_SIZE], plain[NODE_SIZE], data[NODE_SIZE] = "";
    if (stat->owner == 0 && stat->child_count == 0) {
        return;
    }
    without_ids(plain, inside);
    if (nodes->with_data && stat->owner != 0) {
        first_line(nodes, path, data);
    }
    snprintf(line, sizeof(line), "%s %s%s", plain,
             stat->owner != 0 ? "ephemeral" : "lasting", data);
    CHECK(nodes->count < NODES_MAX && strlen(line) < NODE_SIZE);
    memcpy(nodes->text[nodes->count++], line, strlen(line) + 1);
}

/* describes the children of a node; `inside` is its path from the lock's own node on */
static void
describe_children(struct nodes *nodes, const char *name, const char *inside, int depth)
{
    char path[PATH_SIZE], below[PATH_SIZE], *rest = NULL;
    path_of(path, name, inside);
    char *children = tree_children(&nodes->tree, path, NULL);
    if (children == NULL) {
        return;
    }
    for (char *child = strtok_r(children, "\n", &rest); child != NULL;
         child = strtok_r(NULL, "\n", &rest)) {
        tree_stat stat;
        CHECK(snprintf(below, sizeof(below), "%s/%s", inside, child) < PATH_SIZE);
        path_of(path, name, below);
        if (tree_stat_of(&nodes->tree, path, &stat) != 0) {
            continue; /* gone since */
        }
        describe(nodes, below, path, &stat);
        if (stat.owner == 0 && depth > 1) {
            describe_children(nodes, name, below, depth - 1);
        }
    }
    free(children);
}

static int
by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

char *
nodes_shape(const server *on, const char *name, int with_data)
{
    struct nodes *nodes = calloc(1, sizeof(*nodes));
    char *out = calloc(NODES_MAX, NODE_SIZE);
    CHECK(nodes != NULL && out != NULL);
    nodes->with_data = with_data;
    enter(&nodes->tree, on);
    describe_children(nodes, name, "", 2);
    tree_close(&nodes->tree);
    qsort(nodes->text, (size_t)nodes->count, NODE_SIZE, by_text);
    for (int i = 0; i < nodes->count; i++) {
        strcat(out, nodes->text[i]);
        strcat(out, "\n");
    }
    free(nodes);
    return out;
}

static int
children_of(const server *on, const char *name, const char *inside, int if_none)
{
    char path[PATH_SIZE];
    tree_stat stat;
    tree session;
    path_of(path, name, inside);
    enter(&session, on);
    int code = tree_stat_of(&session, path, &stat);
    tree_close(&session);
    CHECK(code == 0 || code == TREE_NO_NODE);
    return code == 0 ? stat.child_count : if_none;
}

int
nodes_count(const server *on, const char *name, const char *inside)
{
    return children_of(on, name, inside, 0);
}

int
nodes_there(const server *on, const char *name)
{
    return children_of(on, name, "", -1) >= 0;
}

int64_t
nodes_asked(const server *on)
{
    int64_t count = zookeeper_number(on, "mntr", "zk_cnt_interop_read_per_namespace");
    CHECK(count >= 0);
    return count;
}
