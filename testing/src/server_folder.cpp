#include "server_folder.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <system_error>

#include "oncebox/error.hpp"
#include "oncebox/testing/child_process.hpp"

namespace oncebox::testing {

namespace {

// Servers refuse to run under root, so root's run under this user, whom the packages make.
constexpr const char* kServerUser = "postgres";

bool is_root() { return geteuid() == 0; }

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::unavailable, what + ": " + std::generic_category().message(errno));
}

// Runs in the background, detached, so that it outlives this program however that ends: also when
// all of its descendants are killed with it. It must not hold our outputs open.
constexpr const char* kWatcher = R"(
trap '' HUP INT TERM
exec 3<&0
(
  read -r nothing
  [ -d "$1" ] || exit
  pid=$(head -n 1 "$2")
  if grep -qF -- "$1" "/proc/$pid/cmdline"; then
    kill -QUIT "$pid"
    kill -CONT "$pid"
    for i in 0 1 2 3 4 5 6 7 8 9; do
      kill -0 "$pid" || break
      sleep 1
    done
  fi
  shared_memory=$(sed -n '7s/.* //p' "$2")
  [ -z "$shared_memory" ] || ipcrm -m "$shared_memory"
  rm -rf -- "$1" "$3"
) <&3 3<&- &
)";

const passwd& server_user() {
  const passwd* user = getpwnam(kServerUser);  // NOLINT(concurrency-mt-unsafe): tests, one thread
  if (user == nullptr) {
    throw Error(ErrorCode::not_found,
                fmt::format("root cannot run this server, and there is no user \"{}\" to run it "
                            "under; install the package postgresql, or run the tests as another "
                            "user",
                            kServerUser));
  }
  return *user;
}

}  // namespace

int free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(10'000, 32'000);
  for (int tries = 0; tries < 1'000; ++tries) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int port = ports(random);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0) fail("cannot make a socket");
    const bool is_free =
        bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(file);
    if (is_free) return port;
  }
  throw Error(ErrorCode::unavailable, "there is no free port on 127.0.0.1");
}

ServerFolder::ServerFolder(const std::string& name, const std::string& parent)
    : path_(parent + "/oncebox-" + name + "-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) fail("cannot make a folder in " + parent);
  try {
    give_to_server_user(path_);
  } catch (...) {
    std::filesystem::remove(path_);
    throw;
  }
}

ServerFolder::~ServerFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (life_line_ >= 0) close(life_line_);
}

ServerFolder::CommandResult ServerFolder::run(std::vector<std::string> command) const {
  if (is_root()) {
    const std::vector<std::string> as_user{"runuser", "-u", kServerUser, "--"};
    command.insert(command.begin(), as_user.begin(), as_user.end());
  }
  const std::string output = file("output");
  ChildProcess process(command, {.output_file = output, .folder = path_, .hidden_variables = "PG"});
  const auto status = process.wait_for(std::chrono::minutes{2});
  return {.succeeded = status && exited_well(*status), .output = read_text(output)};
}

void ServerFolder::run_well(const std::vector<std::string>& command) const {
  const CommandResult result = run(command);
  if (!result.succeeded) {
    throw Error(ErrorCode::unavailable, fmt::format("{} failed: {}", command[0], result.output));
  }
}

void ServerFolder::watch(const std::string& pid_file, const std::string& data_folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  life_line_ = ends[1];
  ChildProcess watcher({"sh", "-c", kWatcher, "sh", path_, pid_file, data_folder},
                       {.output_file = "/dev/null", .input = ends[0], .folder = "/"});
  close(ends[0]);
  watcher.wait_for(std::chrono::seconds{60});
}

void give_to_server_user(const std::string& folder) {
  if (!is_root()) return;
  const passwd& user = server_user();
  const auto give = [&user](const std::string& path) {
    if (lchown(path.c_str(), user.pw_uid, user.pw_gid) != 0) fail("cannot give away " + path);
  };
  give(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    give(entry.path());
  }
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int read_pid(const std::string& path) {
  const std::string text = read_text(path);
  int pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

}  // namespace oncebox::testing
