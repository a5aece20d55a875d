/* examples/libtp/served.c -- a server of transactions, and two clients that are ordinary programs
 * of db(3) but for one thing: a transfer is one request. Ends with 1 when money is lost. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tp/server.h>
#include <unistd.h>

enum { kAccounts = 10, kTransfers = 200 };

static void tell_parent(const char *address, void *argument) {
  (void)address;
  if (write(*(int *)argument, "r", 1) != 1) perror("write");
}

/* What `tmh tpd --socket bank.socket --home home` does. */
static int serve(int ready) {
  struct tp_server_options options = {
      .socket = "bank.socket", .home = "home", .ready = tell_parent, .argument = &ready};
  return tp_serve(&options) == 0 ? 0 : 1;
}

static DBT bytes(void *data, size_t size) {
  const DBT made = {data, size};
  return made;
}

static int transfer_much(int client) {
  tp_server *const server = tp_server_connect("bank.socket");
  if (server == NULL) return 1;
  const int file =
      tp_server_dbopen(server, "accounts", O_RDWR, 0, DB_BTREE, DB_SHARED | DB_TP, NULL);
  for (int i = 0; i < kTransfers; ++i) {
    int from = (i * 7 + client) % kAccounts, to = (i * 3 + 1) % kAccounts;
    struct tp_server_op ops[] = {
        {.kind = TP_SERVER_ADD,
         .db = file,
         .key = bytes(&from, sizeof from),
         .number = (uint64_t)-5},
        {.kind = TP_SERVER_ADD, .db = file, .key = bytes(&to, sizeof to), .number = 5}};
    int result;
    do result = tp_server_batch(server, ops, 2, 0, NULL);
    while (result == -1 && errno == EDEADLK);
    if (result != 0) return 1;
  }
  return tp_server_close(server);
}

int main(void) {
  int ready[2];
  char byte;
  if (pipe(ready) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) exit(serve(ready[1]));
  if (server < 0 || read(ready[0], &byte, 1) != 1) return 1;

  setenv("TP_SERVER", "bank.socket", 1);
  DB *const accounts =
      tp_dbopen("accounts", O_RDWR | O_CREAT, 0600, DB_BTREE, DB_SHARED | DB_TP, NULL);
  if (accounts == NULL) return 1;
  for (int i = 0; i < kAccounts; ++i) {
    uint64_t balance = 100;
    DBT key = bytes(&i, sizeof i);
    const DBT data = bytes(&balance, sizeof balance);
    if (accounts->put(accounts, &key, &data, 0) != 0) return 1;
  }
  pid_t clients[2];
  for (int i = 0; i < 2; ++i)
    if ((clients[i] = fork()) == 0) exit(transfer_much(i));
  int failed = 0, status;
  for (int i = 0; i < 2; ++i) failed |= waitpid(clients[i], &status, 0) < 0 || status != 0;

  long sum = 0;
  DBT key, data;
  for (int how = R_FIRST; accounts->seq(accounts, &key, &data, (unsigned)how) == 0; how = R_NEXT) {
    int64_t balance;
    memcpy(&balance, data.data, sizeof balance);
    sum += balance;
  }
  accounts->close(accounts);
  kill(server, SIGTERM);
  failed |= waitpid(server, &status, 0) < 0 || status != 0;
  printf("%d transfers of two clients; the sum is %ld\n", 2 * kTransfers, sum);
  return failed || sum != 100 * kAccounts;
}
