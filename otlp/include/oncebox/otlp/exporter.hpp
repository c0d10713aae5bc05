#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/tracing.hpp"

namespace oncebox::otlp {

struct ExporterOptions {
  /// Of a collector that speaks OTLP over HTTP, whole.
  std::string url = "http://127.0.0.1:4318/v1/traces";
  /// Sent with each request, such as `Authorization`. Never logged.
  std::map<std::string, std::string> headers = {};
  std::filesystem::path ca_file = {};  ///< PEM; empty: those that the system trusts

  std::string service_name = "oncebox";
  /// What else is said of this process: `service.version`, `host.name`, …
  std::map<std::string, std::string> resource = {};
  /// How many of the traces that begin here are recorded. Those that others began keep their say.
  double sampled_share = 1.0;

  /// Spans in memory, at most; more are dropped and counted.
  std::size_t max_queued = 8'192;
  std::size_t max_batch = 512;  ///< spans in one request
  Duration interval{1'000};     ///< how long spans gather before a request, at most
  Duration timeout{10'000};     ///< of a request
  /// How often a batch is sent that the collector does not take, with growing pauses: for about a
  /// minute. Then it is dropped.
  int max_attempts = 10;
  Duration finish_within{2'000};  ///< how long the destructor goes on sending, at most

  /// Throws `out_of_range` or `invalid_argument`, naming the option.
  void validate() const;
};

struct ExporterStats {
  std::uint64_t exported = 0;
  std::uint64_t dropped = 0;  ///< there was no room for them
  std::uint64_t failed = 0;   ///< the collector did not take them
  std::size_t queued = 0;     ///< wait, or are being sent
};

/// Sends spans to an OpenTelemetry collector: OTLP over HTTP, as JSON. Never blocks who tells of a
/// span: spans wait in a bounded queue for a thread of the exporter's, and those for which there is
/// no room are dropped.
///
/// A collector that is away, or says 429, 502, 503 or 504, gets the batch again, as OTLP has it.
/// Any other answer but 2xx refuses it. The first failure in a row, and the end of it, are logged.
///
/// Attributes have the names of OpenTelemetry's conventions for messaging where there are some, and
/// begin with `oncebox.` otherwise.
class Exporter final : public Tracer {
 public:
  /// Must outlive everything that has it as its tracer. Of the surroundings, logger and clock are
  /// used. Throws as `ExporterOptions::validate` does.
  explicit Exporter(const ExporterOptions& options = {}, const Surroundings& surroundings = {});
  /// Sends what waits, once, for as long as `finish_within` says.
  ~Exporter() override;

  [[nodiscard]] bool samples(const TraceContext::TraceId& trace) noexcept override;
  void on_span(const Span& span) noexcept override;

  /// Sends what waits now without waiting for the interval. False when the collector has not
  /// answered to all of it in time.
  [[nodiscard]] bool flush(Duration within = Duration{10'000});

  [[nodiscard]] ExporterStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::otlp
