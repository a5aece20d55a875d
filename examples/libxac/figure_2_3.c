// examples/libxac/figure_2_3.c -- a recursive function with nested transactions (thesis, section
// 2.1).
// Added:     type tree, and a main that lays out a tree of 1023 nodes (values 1 to 1023) and prints
//            its sum.
#include <stdio.h>

#include <xac.h>

typedef struct tree {
  int value;
  struct tree *left, *right;
} tree;

int sum(tree *t) {
  int answer = 0;
  while (1) {
    xbegin();
    if (t == NULL)
      answer = 0;
    else {
      answer = t->value + sum(t->left) + sum(t->right);
    }
    if (xend() != ABORTED) break;
  }
  return answer;
}

int main(void) {
  int i, nodes = 1023;
  tree *t;

  xInit(".", NONDURABLE);
  t = (tree *)xMmap("tree.db", 8 * 4096);

  while (1) {
    xbegin();
    for (i = 0; i < nodes; i++) {
      t[i].value = i + 1;
      t[i].left = 2 * i + 1 < nodes ? &t[2 * i + 1] : NULL;
      t[i].right = 2 * i + 2 < nodes ? &t[2 * i + 2] : NULL;
    }
    if (xend() == COMMITTED) break;
  }

  printf("%d\n", sum(t));

  xMunmap("tree.db");
  xShutdown();
  return 0;
}
