// Another process at work on a store's file. Until its standard input is closed it takes the write
// lock again and again, as a busy neighbour does, and changes a table of its own.

#include <poll.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>

namespace {

int run(sqlite3* database, const char* sql) {
  return sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
}

bool input_is_closed() {
  // The pause leaves the lock to others, too.
  constexpr int kPauseMs = 1;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, kPauseMs) > 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sqlite_peer PATH\n");
    return 2;
  }
  sqlite3* database = nullptr;
  if (sqlite3_open(argv[1], &database) != SQLITE_OK) return 1;
  sqlite3_busy_timeout(database, 60'000);
  int code = run(database,
                 "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                 "CREATE TABLE IF NOT EXISTS peer (turns INTEGER);"
                 "INSERT INTO peer VALUES (0)");
  std::puts("ready");
  std::fflush(stdout);
  while (code == SQLITE_OK && !input_is_closed()) {
    code = run(database, "BEGIN IMMEDIATE; UPDATE peer SET turns = turns + 1; COMMIT");
  }
  if (code != SQLITE_OK) std::fprintf(stderr, "sqlite_peer: %s\n", sqlite3_errmsg(database));
  sqlite3_close(database);
  return code == SQLITE_OK ? 0 : 1;
}
