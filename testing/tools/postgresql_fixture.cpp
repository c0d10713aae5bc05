// postgresql_fixture start|stop FOLDER: the PostgreSQL server that the tests of one run share.
//
// `start` ends one that is left from an earlier run, starts a new one, and writes its URL to
// FOLDER/url. The server outlives this program: a process in the background keeps it, until `stop`
// or until the folder is removed.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "oncebox/testing/postgresql_server.hpp"
#include "process_tree.hpp"
#include "server_folder.hpp"
#include "shared_postgresql_options.hpp"

namespace oncebox::testing {
namespace {

using namespace std::chrono_literals;

struct FixtureFiles {
  explicit FixtureFiles(const std::string& folder)
      : url(folder + "/url"), keeper(folder + "/keeper"), problem(folder + "/problem") {}

  std::string url;
  std::string keeper;   // The keeper's process, which holds a lock on this file while it lives.
  std::string problem;  // why there is no server
};

void write_text(const std::string& path, const std::string& text) {
  // Under another name first: whoever sees the file sees all of it.
  const std::string draft = path + ".new";
  std::ofstream(draft) << text;
  std::filesystem::rename(draft, path);
}

bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0; }

int open_keeper(const FixtureFiles& files) {
  return open(files.keeper.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

void stop(const FixtureFiles& files) {
  const int file = open_keeper(files);
  if (file >= 0 && !lock(file)) {
    ::kill(read_pid(files.keeper), SIGTERM);
    wait_until([file] { return lock(file); }, 60s);
  }
  close(file);
  std::filesystem::remove(files.url);
  std::filesystem::remove(files.keeper);
  std::filesystem::remove(files.problem);
}

sigset_t order_to_end() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Waits for the order to end, or for the end of the build tree.
void wait_for_the_end(const FixtureFiles& files) {
  const sigset_t signals = order_to_end();
  const timespec look_after{.tv_sec = 2, .tv_nsec = 0};
  while (sigtimedwait(&signals, nullptr, &look_after) != SIGTERM) {
    if (!std::filesystem::exists(files.url)) return;
  }
}

void keep(const FixtureFiles& files) {
  try {
    const PostgresqlServer server(shared_postgresql_options());
    write_text(files.url, server.url());
    wait_for_the_end(files);
  } catch (const std::exception& error) {
    write_text(files.problem, error.what());
  }
}

// Becomes a process of its own, which no one waits for.
void detach() {
  setsid();
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;
  for (const int output : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, output);
}

int start(const FixtureFiles& files) {
  stop(files);
  const int file = open_keeper(files);
  if (file < 0 || !lock(file)) {
    fmt::print(stderr, "cannot write {}\n", files.keeper);
    return EXIT_FAILURE;
  }
  const sigset_t signals = order_to_end();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const pid_t keeper = fork();
  if (keeper == 0) {
    detach();
    keep(files);
    std::exit(EXIT_SUCCESS);  // NOLINT(concurrency-mt-unsafe): there are no threads
  }
  const std::string pid = fmt::format("{}\n", keeper);
  const bool written = keeper > 0 && write(file, pid.data(), pid.size()) > 0;
  const bool started =
      written &&
      wait_until([&] { return std::filesystem::exists(files.url) || !is_alive(keeper); }, 240s);
  if (started && std::filesystem::exists(files.url)) return EXIT_SUCCESS;
  fmt::print(stderr, "{}\n", read_text(files.problem));
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace oncebox::testing

int main(int argc, char** argv) {
  const std::string_view order = argc == 3 ? argv[1] : "";
  if (order != "start" && order != "stop") {
    fmt::print(stderr, "usage: postgresql_fixture start|stop FOLDER\n");
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[2]);
    const oncebox::testing::FixtureFiles files(argv[2]);
    if (order == "start") return oncebox::testing::start(files);
    oncebox::testing::stop(files);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "postgresql_fixture: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
