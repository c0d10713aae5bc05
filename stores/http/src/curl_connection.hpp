#pragma once

#include <memory>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/http/http_store.hpp"

/// The one place, beside the event stream, that knows libcurl.
namespace oncebox::http {

/// When a request gives up, in real time: libcurl knows no other.
[[nodiscard]] SteadyTime deadline_in(Duration time);
/// Not above 0 when the time is over.
[[nodiscard]] Duration time_left(SteadyTime deadline);

/// What a call does to the store, and so what can be said when its answer is lost.
enum class Effect {
  reads,
  repeats,  ///< changes, but a repetition has the same effect and answer
  changes,
};

enum class Method { get, post };

struct Request {
  Method method = Method::get;
  std::string url;
  std::string body = {};
  std::string authorization = {};  ///< the value of the field; empty: none
  Effect effect = Effect::reads;
  SteadyTime deadline{};
};

struct Reply {
  int status = 0;
  std::string body;
};

/// A connection that is kept open between requests. One thread at a time.
class CurlConnection {
 public:
  explicit CurlConnection(const Options& options);
  ~CurlConnection();
  CurlConnection(const CurlConnection&) = delete;
  CurlConnection& operator=(const CurlConnection&) = delete;

  /// Sends a request and waits for the whole answer, whatever its status. Throws `unavailable` or
  /// `timeout` when the service did not get the whole request, `outcome_unknown` when it may have
  /// and the request has an effect. The limits of a call (`CallScope`) end it, too.
  [[nodiscard]] Reply send(const Request& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::http
