#include "oncebox/testing/postgresql_server.hpp"

#include <fmt/format.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "oncebox/error.hpp"
#include "postgresql_binaries.hpp"
#include "process_tree.hpp"
#include "server_certificate.hpp"
#include "server_folder.hpp"
#include "simple_query.hpp"

namespace oncebox::testing {

namespace {

using namespace std::chrono_literals;

// As postgresql.conf wants its text.
std::string quoted(const std::string& value) {
  std::string text = "'";
  for (const char letter : value) {
    if (letter == '\'' || letter == '\\') text += letter;
    text += letter;
  }
  return text + "'";
}

// As SQL wants it: quotes are doubled.
std::string sql_quoted(std::string_view text, char quote) {
  std::string quoted_text(1, quote);
  for (const char letter : text) {
    if (letter == quote) quoted_text += quote;
    quoted_text += letter;
  }
  return quoted_text + quote;
}

// As a part of a URL.
std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char letter : text) {
    const bool is_plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                          (letter >= 'A' && letter <= 'Z');
    encoded += is_plain ? std::string(1, letter)
                        : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return encoded;
}

// A server that was killed leaves a small segment of shared memory, and the next start of its data
// removes it. When there will be none, we do.
void remove_shared_memory(const std::string& pid_file) {
  std::istringstream lines(read_text(pid_file));
  std::string line;
  for (int number = 1; number <= 7; ++number) std::getline(lines, line);
  std::istringstream numbers(line);
  unsigned long key = 0;
  int id = -1;
  if (numbers >> key >> id) shmctl(id, IPC_RMID, nullptr);
}

}  // namespace

class PostgresqlServer::Impl {
 public:
  explicit Impl(PostgresqlServerOptions options)
      : options_(std::move(options)),
        folder_("pg"),
        bin_(reachable_postgresql_binaries(find_postgresql_binaries(options_.bin), folder_)),
        port_(free_port()) {
    if (!options_.folder.empty()) data_folder_.emplace("pg", options_.folder);
    data_ = data_folder_ ? data_folder_->path() : folder_.file("data");
    folder_.watch(pid_file(), data_);
  }

  ~Impl() {
    if (running()) {
      resume();
      // An immediate stop: orderly enough to give the shared memory back.
      send({pid_}, SIGQUIT);
      if (!wait_until_gone({pid_}, 10s)) send(stop_with_children(pid_), SIGKILL);
    }
    remove_shared_memory(pid_file());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Makes the data of a new server.
  void initialise() const {
    folder_.run_well({bin_ + "/initdb", "-D", data_, "-A", "trust", "-U", "postgres", "--no-sync",
                      "-E", "UTF8", "--locale=C.UTF-8"});
    std::vector<PostgresqlSetting> settings{
        {"listen_addresses", "127.0.0.1"},
        // Else a killed server leaves files outside of its folder.
        {"dynamic_shared_memory_type", "mmap"},
        // How long a standby waits before it looks again for what it misses: 5 s by default.
        {"wal_retrieve_retry_interval", "100ms"},
    };
    if (!options_.durable) {
      settings.push_back({"fsync", "off"});
      settings.push_back({"full_page_writes", "off"});
    }
    if (options_.tls) {
      make_server_certificate(folder_, data_);
      settings.push_back({"ssl", "on"});
      settings.push_back({"password_encryption", "scram-sha-256"});
      write_access_rules();
    }
    settings.insert(settings.end(), options_.settings.begin(), options_.settings.end());
    std::ofstream file(data_ + "/postgresql.conf", std::ios::app);
    for (const auto& [name, value] : settings) file << name << " = " << quoted(value) << '\n';
    if (!file.flush()) throw Error(ErrorCode::unavailable, "cannot write " + data_);
  }

  void make_tls_user() const {
    if (!options_.tls) return;
    const std::string user = sql_quoted(options_.tls->user, '"');
    execute(fmt::format("CREATE ROLE {0} LOGIN CREATEDB PASSWORD {1};"
                        "GRANT CREATE ON DATABASE postgres TO {0};"
                        "GRANT CREATE ON SCHEMA public TO {0}",
                        user, sql_quoted(options_.tls->password, '\'')),
            "postgres");
  }

  /// Makes the data of a server that follows another one, under this name.
  void copy_from(const Impl& primary, const std::string& name) const {
    if (!std::filesystem::exists(bin_ + "/pg_basebackup")) {
      throw Error(ErrorCode::not_found, "a standby needs pg_basebackup, and there is none in " +
                                            bin_ + "; use the programs of the package postgresql");
    }
    folder_.run_well({bin_ + "/pg_basebackup", "-D", data_, "--write-recovery-conf", "--no-sync",
                      "--checkpoint=fast", "-d",
                      fmt::format("host={} port={} user=postgres application_name={}",
                                  primary.socket_folder(), primary.port_, name)});
  }

  std::unique_ptr<Impl> make_standby() {
    PostgresqlServerOptions options = options_;
    options.bin = bin_;
    options.folder.clear();
    auto standby = std::make_unique<Impl>(std::move(options));
    const std::string name = fmt::format("standby_{}", standbys_.size() + 1);
    standby->copy_from(*this, name);
    standby->start();
    standbys_.push_back(name);
    execute(fmt::format("ALTER SYSTEM SET synchronous_standby_names = 'FIRST {} ({})'",
                        standbys_.size(), fmt::join(standbys_, ", ")),
            "postgres");
    execute("SELECT pg_reload_conf()", "postgres");
    const std::string state = fmt::format(
        "SELECT sync_state FROM pg_stat_replication WHERE application_name = '{}'", name);
    if (!wait_until([&] { return execute(state, "postgres") == "sync"; }, 60s)) {
      throw Error(ErrorCode::unavailable, "the standby does not follow: " + standby->log());
    }
    return standby;
  }

  void promote() const { folder_.run_well({bin_ + "/pg_ctl", "-D", data_, "-w", "promote"}); }

  [[nodiscard]] std::string url(const std::string& database) const {
    const std::string name = percent_encoded(database);
    if (!options_.tls) return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", port_, name);
    return fmt::format("postgresql://{}:{}@localhost:{}/{}", percent_encoded(options_.tls->user),
                       percent_encoded(options_.tls->password), port_, name);
  }

  [[nodiscard]] std::string ca_certificate() const {
    return options_.tls ? data_ + "/" + kCaCertificate : "";
  }

  [[nodiscard]] const std::string& socket_folder() const { return folder_.path(); }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string log() const { return read_text(log_file()); }

  [[nodiscard]] bool running() const { return pid_ > 0 && is_alive(pid_); }

  std::string execute(const std::string& sql, const std::string& database) const {
    return run_simple_query(socket_file(), database, sql);
  }

  void start() {
    if (running()) return;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    for (;;) {
      forget_the_dead();
      const std::size_t log_size = log().size();
      const auto result = folder_.run({bin_ + "/pg_ctl", "-D", data_, "-l", log_file(), "-w", "-t",
                                       "60", "-o", server_arguments(), "start"});
      if (result.succeeded) break;
      const std::string reason = log().substr(log_size);
      if (std::chrono::steady_clock::now() > deadline || !is_passing(reason)) {
        throw Error(
            ErrorCode::unavailable,
            fmt::format("the PostgreSQL server does not start: {}{}", result.output, reason));
      }
      // Somebody was faster to take the port; nobody has been told of it yet.
      if (!has_run_) port_ = free_port();
    }
    pid_ = read_pid(pid_file());
    has_run_ = true;
  }

  void stop(StopMode mode) {
    if (!running()) return;
    resume();
    folder_.run_well({bin_ + "/pg_ctl", "-D", data_, "-w", "-t", "60", "-m",
                      mode == StopMode::fast ? "fast" : "immediate", "stop"});
    pid_ = 0;
  }

  void kill() {
    if (!running()) return;
    const std::vector<int> all = stop_with_children(pid_);
    send(all, SIGKILL);
    paused_.clear();
    pid_ = 0;
    if (!wait_until_gone(all, 60s)) {
      throw Error(ErrorCode::unavailable, "the PostgreSQL server is still there after SIGKILL");
    }
  }

  void pause() {
    if (running()) paused_ = stop_with_children(pid_);
  }

  void resume() {
    send(paused_, SIGCONT);
    paused_.clear();
  }

 private:
  [[nodiscard]] std::string socket_file() const {
    return fmt::format("{}/.s.PGSQL.{}", socket_folder(), port_);
  }
  [[nodiscard]] std::string log_file() const { return folder_.file("log"); }
  [[nodiscard]] std::string pid_file() const { return data_ + "/postmaster.pid"; }

  // They are not in postgresql.conf, which a standby copies.
  [[nodiscard]] std::string server_arguments() const {
    return fmt::format("-p {} -k {}", port_, socket_folder());
  }

  // The system may take seconds to fetch a process that was killed, and while it has not, a new
  // server believes that the old one runs. We know better: all of its processes are gone.
  void forget_the_dead() const {
    const int last = read_pid(pid_file());
    if (last <= 0 || is_alive(last)) return;
    remove_shared_memory(pid_file());
    std::filesystem::remove(pid_file());
    std::filesystem::remove(socket_file() + ".lock");
  }

  void write_access_rules() const {
    std::ofstream file(data_ + "/pg_hba.conf", std::ios::trunc);
    file << "local all postgres trust\n"
         << "local replication postgres trust\n"
         << "hostssl all " << sql_quoted(options_.tls->user, '"')
         << " 127.0.0.1/32 scram-sha-256\n";
  }

  // What may be over in a moment: the port is taken, or the system still knows the last process.
  [[nodiscard]] static bool is_passing(std::string_view reason) {
    return reason.find("Address already in use") != std::string_view::npos ||
           reason.find("FATAL:  lock file") != std::string_view::npos ||
           reason.find("is still in use") != std::string_view::npos;
  }

  const PostgresqlServerOptions options_;
  ServerFolder folder_;
  const std::string bin_;
  std::optional<ServerFolder> data_folder_;  // when they lie elsewhere
  std::string data_;
  int port_ = 0;
  int pid_ = 0;  // of the postmaster; 0 when we stopped it
  bool has_run_ = false;
  std::vector<int> paused_;            // processes
  std::vector<std::string> standbys_;  // their names
};

PostgresqlServer::PostgresqlServer(PostgresqlServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->initialise();
  impl_->start();
  impl_->make_tls_user();
}
PostgresqlServer::PostgresqlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PostgresqlServer::~PostgresqlServer() = default;

std::string PostgresqlServer::url(const std::string& database) const {
  return impl_->url(database);
}
std::string PostgresqlServer::socket_url(const std::string& database) const {
  return fmt::format("postgresql://postgres@/{}?host={}&port={}", percent_encoded(database),
                     percent_encoded(socket_folder()), port());
}
std::string PostgresqlServer::ca_certificate() const { return impl_->ca_certificate(); }
int PostgresqlServer::port() const { return impl_->port(); }
std::string PostgresqlServer::socket_folder() const { return impl_->socket_folder(); }
std::string PostgresqlServer::execute(const std::string& sql, const std::string& database) {
  return impl_->execute(sql, database);
}
void PostgresqlServer::start() { impl_->start(); }
void PostgresqlServer::stop(StopMode mode) { impl_->stop(mode); }
void PostgresqlServer::restart() {
  impl_->stop(StopMode::fast);
  impl_->start();
}
void PostgresqlServer::kill() { impl_->kill(); }
void PostgresqlServer::pause() { impl_->pause(); }
void PostgresqlServer::resume() { impl_->resume(); }
bool PostgresqlServer::running() const { return impl_->running(); }
std::unique_ptr<PostgresqlServer> PostgresqlServer::make_standby() {
  return std::unique_ptr<PostgresqlServer>(new PostgresqlServer(impl_->make_standby()));
}
void PostgresqlServer::promote() { impl_->promote(); }
std::string PostgresqlServer::log() const { return impl_->log(); }

}  // namespace oncebox::testing
