#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/testing/child_process.hpp"

namespace oncebox::bench {

/// A program that serves HTTP on a port of its own choice, which it prints or writes to a file.
/// Ended with this object.
class ServedProcess {
 public:
  /// `port_file` gets the port as the only thing in its first line; the program's output goes there
  /// too unless it writes the file itself. Throws when there is no port within half a minute.
  enum class PortFrom { output, file };
  ServedProcess(std::vector<std::string> command, const std::string& port_file, PortFrom from,
                const std::string& folder = "");

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// Memory that the process has now, in MiB.
  [[nodiscard]] double resident_mib() const;

 private:
  std::unique_ptr<testing::ChildProcess> process_;
  std::uint16_t port_ = 0;
};

}  // namespace oncebox::bench
