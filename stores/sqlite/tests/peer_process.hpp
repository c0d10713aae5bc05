#pragma once

#include <cstdio>
#include <string>

namespace oncebox::sqlite {

/// A program that runs beside the test until this object is destroyed, which closes its input.
class PeerProcess {
 public:
  /// Starts it and waits until it has printed a line.
  explicit PeerProcess(const std::string& command);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// The next line that it prints, without the end of the line; empty when it has ended.
  [[nodiscard]] std::string read_line();
  /// Closes its input and answers its exit code.
  int finish();

 private:
  int process_ = -1;
  std::FILE* input_ = nullptr;
  std::FILE* output_ = nullptr;
};

}  // namespace oncebox::sqlite
