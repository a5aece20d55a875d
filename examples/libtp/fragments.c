/* examples/libtp/fragments.c -- the two fragments of the paper's section 4.4, as printed, in
 * functions; around them what they call: a page of sorted numbers stands for the B-tree. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tp/paper.h>

typedef struct {
  long number;
} DBT;
typedef DBT DATUM;
struct page {
  int count;
  long numbers[500];
};
static struct page *meta_data_ptr;

static void _bt_insertat(struct page *page, DATUM *d, int index) {
  memmove(page->numbers + index + 1, page->numbers + index,
          (size_t)(page->count - index) * sizeof *page->numbers);
  page->numbers[index] = d->number;
  ++page->count;
}

/* What the record says: where a number went to. */
enum { BTREE_INSERT = 1 };
struct inserted {
  int fid, pageno, index;
  struct page *page;
};
static struct inserted last;
static void log_insdel(int type, int fid, int pageno, DBT *keyp, DBT *datap) {
  (void)fid, (void)pageno, (void)keyp, (void)datap;
  if (log((uint32_t)type, &last, sizeof last) == 0) exit(1);
}
static int undo_insert(tp_step_t *step, const struct tp_record *record, void *context) {
  struct inserted inserted;
  (void)step, (void)context;
  memcpy(&inserted, record->data, sizeof inserted);
  struct page *page = inserted.page;
  memmove(page->numbers + inserted.index, page->numbers + inserted.index + 1,
          (size_t)(page->count - inserted.index - 1) * sizeof *page->numbers);
  --page->count;
  return 0;
}

static int open_tree(char *name, int *opened) {
  char *path = name;
  int fid, flags = O_RDWR | O_CREAT, len, mode = 0600;

  /* Obtain a file id with which to access the buffer pool */
  fid = buf_open(path, flags, mode);

  /* Read the meta data (page 0) for the B-tree */
  if (tp_lock(fid, 0, READ_LOCK)) return 1;

  meta_data_ptr = buf_get(fid, 0, BF_PIN, &len);
  *opened = fid;
  return buf_unpin(meta_data_ptr);
}

static int insert(int fid, int pageno, long number) {
  int len, index;
  DBT pair = {number}, *keyp = &pair, *datap = &pair;
  DATUM *d = &pair;
  struct page *buffer_ptr;

  /* Lock and request the buffer */
  if (tp_lock(fid, pageno, WRITE_LOCK)) return 1;
  buffer_ptr = buf_get(fid, pageno, BF_PIN, &len);

  for (index = 0; index < buffer_ptr->count && buffer_ptr->numbers[index] < number; ++index) {
  }
  last = (struct inserted){fid, pageno, index, buffer_ptr};

  /* Log and perform the update */
  log_insdel(BTREE_INSERT, fid, pageno, keyp, datap);
  _bt_insertat(buffer_ptr, d, index);
  return buf_unpin(buffer_ptr);
}

int main(void) {
  const struct tp_type type = {BTREE_INSERT, "insert", undo_insert, 0, TP_PAGES, 0};
  struct tp_options options = {0};
  options.types = &type;
  options.type_count = 1;
  if (tp_paper_open("fragments.domain", &options) != TP_OK) return 1;
  int fid = -1, error = 0;
  for (int round = 0; round < 3; ++round) {
    if (txn_begin() == 0) return 1;
    error |= open_tree("tree", &fid);
    for (long i = 0; i < 5; ++i) error |= insert(fid, 1, (i * 7 + round) % 10);
    error |= round == 1 ? txn_abort() : txn_commit();
  }
  if (txn_begin() == 0) return 1;
  int len = 0;
  const struct page *page = buf_get(fid, 1, BF_PIN, &len);
  const int count = page->count;
  for (int i = 0; i < count; ++i) printf("%ld ", page->numbers[i]);
  printf("\n%d numbers of two transactions, none of the one that aborted\n", count);
  error |= buf_unpin((void *)page);
  error |= txn_commit();
  if (error != 0) fprintf(stderr, "%s\n", tp_last_error());
  return error == 0 && count == 10 && tp_paper_close() == TP_OK ? 0 : 1;
}
