#include "oncebox/testing/pgbouncer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "oncebox/error.hpp"
#include "process_tree.hpp"
#include "server_folder.hpp"
#include "simple_query.hpp"

namespace oncebox::testing {

namespace {

using namespace std::chrono_literals;

std::string find_pgbouncer() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* path = std::getenv("PATH");
  // An ordinary user has no folder of system programs in it.
  std::istringstream folders(std::string(path != nullptr ? path : "") + ":/usr/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string program = folder + "/pgbouncer";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  throw Error(ErrorCode::not_found, "there is no PgBouncer here; install the package pgbouncer");
}

}  // namespace

class PgBouncer::Impl {
 public:
  Impl() : program_(find_pgbouncer()), folder_("pgbouncer"), port_(free_port()) {
    folder_.watch(pid_file(), folder_.path());
  }

  ~Impl() {
    // At once. What SIGTERM and SIGINT wait for differs from version to version.
    const int pid = read_pid(pid_file());
    if (pid <= 0) return;
    send({pid}, SIGQUIT);
    if (!wait_until_gone({pid}, 10s)) send({pid}, SIGKILL);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start(const PostgresqlServer& server, const std::vector<PostgresqlSetting>& settings) const {
    const std::string file = folder_.file("pgbouncer.ini");
    std::ofstream configuration(file);
    configuration << "[databases]\n* = host=" << server.socket_folder() << " port=" << server.port()
                  << " user=postgres\n[pgbouncer]\n";
    const auto write = [&](const std::vector<PostgresqlSetting>& lines) {
      for (const auto& [name, value] : lines) configuration << name << " = " << value << '\n';
    };
    write({{"listen_addr", "127.0.0.1"},
           {"listen_port", std::to_string(port_)},
           {"unix_socket_dir", folder_.path()},
           {"logfile", folder_.file("log")},
           {"pidfile", pid_file()},
           {"auth_type", "any"},
           {"pool_mode", "transaction"},
           {"max_client_conn", "1000"},
           // A server that was restarted is asked again soon.
           {"server_login_retry", "1"}});
    write(settings);
    configuration.close();
    folder_.run_well({program_, "-q", "-d", file});
    if (!wait_until([this] { return answers(); }, 60s)) {
      throw Error(ErrorCode::unavailable, "PgBouncer does not answer: " + log());
    }
  }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string log() const { return read_text(folder_.file("log")); }

 private:
  [[nodiscard]] std::string pid_file() const { return folder_.file("pid"); }

  [[nodiscard]] bool answers() const {
    try {
      run_simple_query(fmt::format("{}/.s.PGSQL.{}", folder_.path(), port_), "postgres", "SELECT");
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const std::string program_;
  ServerFolder folder_;
  const int port_;
};

PgBouncer::PgBouncer(const PostgresqlServer& server, const std::vector<PostgresqlSetting>& settings)
    : impl_(std::make_unique<Impl>()) {
  impl_->start(server, settings);
}
PgBouncer::~PgBouncer() = default;

std::string PgBouncer::url(const std::string& database) const {
  return fmt::format("postgresql://postgres@127.0.0.1:{}/{}", port(), database);
}
int PgBouncer::port() const { return impl_->port(); }
std::string PgBouncer::log() const { return impl_->log(); }

}  // namespace oncebox::testing
