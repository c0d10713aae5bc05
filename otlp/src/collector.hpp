#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/curl/handles.hpp"
#include "oncebox/otlp/exporter.hpp"

namespace oncebox::otlp {

/// Posts to a collector, one request after the other, over a connection that is kept. Used by one
/// thread, but for `give_up_at`.
class Collector {
 public:
  /// Throws `invalid_argument` for an address or a header that cannot be sent.
  explicit Collector(const ExporterOptions& options);

  struct Answer {
    bool taken = false;
    bool may_be_taken_later = false;
    std::optional<Duration> retry_after = {};  ///< what it asks for
    std::string body = {};                     ///< empty when it was too long
    std::string problem = {};                  ///< why it was not taken
  };
  [[nodiscard]] Answer post(const std::string& body);

  /// For the log: an address may have a secret in it.
  [[nodiscard]] const std::string& host() const noexcept { return host_; }

  /// Requests that are under way at this time are broken off, by the machine's steady time. From
  /// any thread.
  void give_up_at(SteadyTime time) noexcept { give_up_at_ = time; }

 private:
  static std::size_t take(char* data, std::size_t size, std::size_t count, void* answer) noexcept;
  static int go_on(void* collector, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept;
  [[nodiscard]] Answer answered();

  const std::string host_;
  curl::EasyHandle handle_;
  curl::FieldList fields_;
  std::string body_;              ///< of the answer
  bool has_read_enough_ = false;  ///< the rest of an answer that is too long is not read
  std::atomic<SteadyTime> give_up_at_ = SteadyTime::max();
};

}  // namespace oncebox::otlp
