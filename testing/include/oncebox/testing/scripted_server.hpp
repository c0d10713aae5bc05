#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace oncebox::testing {

/// A request as the scripted server got it.
struct ReceivedRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> fields;  ///< names in lower case
  std::string body;
  std::size_t connection = 0;  ///< counted from 0
};

/// What the scripted server does with a request.
struct Reaction {
  enum class Kind {
    answer,
    hang_up,           ///< closes the connection without an answer
    hang_up_for_good,  ///< the same, and takes no new connection from then on
    hang,              ///< neither answers nor closes
    stream,            ///< sends the body without an end, and hangs
    flood,             ///< sends the body again and again, until the client goes
    cut_off,           ///< promises a longer answer than it sends, and closes
    reset,             ///< closes the connection by a reset
    raw,               ///< sends the body as it is, without a head of its own, and goes on
    drip,              ///< the same, one byte after the other, with `pause` between them
  };

  Kind kind = Kind::answer;
  int status = 200;
  std::string body = "{}";
  std::map<std::string, std::string> fields = {};  ///< beside those that it needs
  std::chrono::milliseconds pause{1'000};          ///< of a drip
};

/// An HTTP server of a few lines that does to its clients what the test wants, also what no good
/// server does.
class ScriptedServer {
 public:
  using Script = std::function<Reaction(const ReceivedRequest&)>;

  /// `script` is called on threads of the server's, one request at a time.
  explicit ScriptedServer(Script script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] std::string url() const;
  [[nodiscard]] std::vector<ReceivedRequest> requests() const;
  [[nodiscard]] std::size_t connections() const;
  /// Waits until so many requests have come; false when they do not.
  [[nodiscard]] bool wait_for_requests(std::size_t count) const;
  /// Waits until so many connections have ended, whoever ended them; false when they do not.
  [[nodiscard]] bool wait_for_ends(std::size_t count) const;
  /// Closes every connection; returns when the clients could know. New ones are taken.
  void cut_all();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// An address at which nobody listens.
[[nodiscard]] std::string dead_url();

}  // namespace oncebox::testing
