#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace oncebox::postgresql {

/// Stands between stores and their server, on a port of 127.0.0.1, and forwards what they say until
/// it is told to fail. It reads the messages of the protocol, so that a failure strikes at an exact
/// place. Calls are safe from any thread. Framing is not seen through TLS: such a connection is
/// only forwarded.
class CuttingProxy {
 public:
  /// `server` is a libpq URL with the host and port of a running server.
  explicit CuttingProxy(const std::string& server);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  /// How a client gets to the server's database through the proxy.
  [[nodiscard]] std::string connection() const;

  /// Cuts a connection in place of forwarding the next step but `step`. Steps are the statements of
  /// the calls of a store, and the end of each exchange, at which one without a COMMIT in it is
  /// committed. So whatever the step, nothing is committed.
  void cut_before(int step);

  /// Forwards exchanges until one leaves no transaction open and `skip` more of them have, and then
  /// cuts the connection in place of forwarding the answer: it was committed, and nobody hears.
  void cut_answer(int skip = 0);

  /// No failure strikes any more. Answers which of the server's processes lost its client to the
  /// one that was asked for; nothing when it did not strike. That process may still be working on
  /// what was forwarded to it before.
  std::optional<int> disarm();

  /// Ends all connections.
  void cut_all();

  /// Forwards nothing until `thaw`, and accepts nobody: connections stay open, and nobody answers.
  void freeze();
  void thaw();

  /// From now on every answer arrives this much later.
  void delay_answers(std::chrono::milliseconds by);

  /// How much the server has sent through it.
  [[nodiscard]] std::size_t answered_bytes();

  /// How many connections go through it now.
  [[nodiscard]] std::size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::postgresql
