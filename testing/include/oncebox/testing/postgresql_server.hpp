#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace oncebox::testing {

/// A line of postgresql.conf.
struct PostgresqlSetting {
  std::string name;
  std::string value;
};

/// Who may come in by TCP: a user with a password, by TLS only.
struct PostgresqlTls {
  std::string user = "oncebox";
  std::string password = "a password";
};

struct PostgresqlServerOptions {
  /// The folder of the server's programs. Empty: what the variable ONCEBOX_POSTGRESQL_BIN of the
  /// environment says, else the newest in /usr/lib/postgresql.
  std::string bin;

  /// Whether a power cut would lose nothing: fsync and full_page_writes. Without them a commit is
  /// much faster and still survives `kill()`.
  bool durable = false;

  /// Further settings. They win over ours.
  std::vector<PostgresqlSetting> settings;

  /// Where the data lie, for example a small disk that a test fills. Empty: with the rest, in a
  /// temporary folder.
  std::string folder;

  /// If set, clients come in by TCP only so. The server has a certificate for `localhost` and
  /// 127.0.0.1 from an authority of its own (`ca_certificate()`), and `url()` has the login in it.
  /// The socket stays open to the superuser.
  std::optional<PostgresqlTls> tls;
};

enum class StopMode {
  fast,       ///< ends the connections, and shuts down in order
  immediate,  ///< ends without writing anything more; the next start recovers, as after a crash
};

/// A real PostgreSQL server of the test's own: its data in a temporary folder, on a free port of
/// 127.0.0.1 and a socket in that folder. It is stopped and removed with this object, and also when
/// the test program is killed. Its superuser is `postgres`, who needs no password.
///
/// It runs under the user of the test; for root, who may not run one, under the user postgres.
/// Needs the programs of the server, no client library. Calls come from one thread at a time, save
/// `execute`. What goes wrong is an `oncebox::Error`; when the server does not start, its text has
/// the log in it.
class PostgresqlServer {
 public:
  /// Makes the server and starts it. Throws `not_found`, saying which package to install, when
  /// there are no programs.
  explicit PostgresqlServer(PostgresqlServerOptions options = {});
  ~PostgresqlServer();
  PostgresqlServer(const PostgresqlServer&) = delete;
  PostgresqlServer& operator=(const PostgresqlServer&) = delete;

  /// How a client gets there, by TCP and by the socket: "postgresql://postgres@127.0.0.1:PORT/…".
  /// The same for the life of the object.
  [[nodiscard]] std::string url(const std::string& database = "postgres") const;
  [[nodiscard]] std::string socket_url(const std::string& database = "postgres") const;
  [[nodiscard]] int port() const;
  [[nodiscard]] std::string socket_folder() const;

  /// With `tls`: the file of the certificate that vouches for the server's, for `sslrootcert`.
  [[nodiscard]] std::string ca_certificate() const;

  /// Runs SQL as the superuser and answers its rows as `psql -At` prints them: a line for each,
  /// with | between the columns. Throws `unavailable` with the server's message when it fails.
  std::string execute(const std::string& sql, const std::string& database = "postgres");

  /// Starts a server that does not run, and returns when it takes connections.
  void start();
  void stop(StopMode mode = StopMode::fast);
  void restart();

  /// SIGKILL for the server and all of its processes at once. Returns when they are gone.
  void kill();

  /// Stops the server and all of its processes where they are, until `resume()`: connections stay
  /// open, and nobody answers.
  void pause();
  void resume();

  /// Whether there is a server process, paused or not.
  [[nodiscard]] bool running() const;

  /// A new server that follows this one. From now on a commit returns when all such servers have
  /// it, and waits while one of them is down. Needs pg_basebackup among the programs.
  [[nodiscard]] std::unique_ptr<PostgresqlServer> make_standby();

  /// Makes a standby a server in its own right, which takes writes.
  void promote();

  /// What the server wrote to its log, since it was made.
  [[nodiscard]] std::string log() const;

 private:
  class Impl;
  explicit PostgresqlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::testing
