#pragma once

#include <string>
#include <vector>

namespace oncebox::testing {

/// A port of 127.0.0.1 that nobody listens on. It is none that the system gives to clients, so that
/// it stays free while its server is down.
[[nodiscard]] int free_port();

/// A new folder that belongs to the user whom servers run under, and the place to run their
/// programs in. Removed with this object.
class ServerFolder {
 public:
  explicit ServerFolder(const std::string& name, const std::string& parent = "/tmp");
  ~ServerFolder();
  ServerFolder(const ServerFolder&) = delete;
  ServerFolder& operator=(const ServerFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  struct CommandResult {
    bool succeeded = false;
    std::string output;
  };
  /// Runs a program to its end, as the user that servers run under and without the variables that
  /// would tell PostgreSQL's programs where to go.
  [[nodiscard]] CommandResult run(std::vector<std::string> command) const;

  /// As `run`; throws `unavailable` with the program's output when it fails.
  void run_well(const std::vector<std::string>& command) const;

  /// From now on a process watches over us: when this program ends without removing the folder, it
  /// stops the server whose process is named in the first line of `pid_file` and removes the
  /// folder, and that of the data, if it is another.
  void watch(const std::string& pid_file, const std::string& data_folder);

 private:
  std::string path_;
  int life_line_ = -1;  // The watcher reads its other end, which ends with us.
};

/// Makes everything in a folder belong to the user whom servers run under, if that is another one.
void give_to_server_user(const std::string& folder);

/// The text of a file; empty when there is none.
[[nodiscard]] std::string read_text(const std::string& path);

/// The process that the first line of a file names; 0 when there is none.
[[nodiscard]] int read_pid(const std::string& path);

}  // namespace oncebox::testing
