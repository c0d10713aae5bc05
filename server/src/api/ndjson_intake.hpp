#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/intake.hpp"
#include "api/line_splitter.hpp"
#include "http/exchange.hpp"
#include "http/memory_budget.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

/// What became of the lines of a streamed body.
struct IntakeSummary {
  /// A line that was not stored, and why.
  struct Failure {
    std::size_t line = 0;  ///< the first is 1
    std::string code;
    std::string detail;
  };
  static constexpr std::size_t kMaxFailures = 100;
  static constexpr std::size_t kStatuses = 9;

  std::size_t received = 0;                       ///< lines that are not blank
  std::array<std::size_t, kStatuses> statuses{};  ///< by `EnqueueStatus`
  std::size_t hash_mismatches = 0;
  std::size_t failed = 0;
  std::vector<Failure> failures = {};  ///< the first of them
};

/// Takes in a body of one message a line, as it comes: a batch of lines is stored in one
/// transaction while the next piece of the body waits. So memory holds one batch and one piece,
/// however long the body is; what is kept between two pieces counts in the server's budget. A line
/// that is no message fails alone. When the store fails, the answer says how many lines were dealt
/// with: the client may go on behind them, or repeat all.
class NdjsonIntake final : public BodySink, public std::enable_shared_from_this<NdjsonIntake> {
 public:
  static constexpr std::size_t kBatchLines = 500;
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

  NdjsonIntake(ExchangePtr exchange, ServedQueuePtr queue, const IntakeSettings& settings,
               const ApiParts& parts);

  void on_data(std::string piece, std::function<void()> more) override;
  void on_end() override;
  void on_broken() noexcept override {}

 private:
  void run(std::function<void()> step);
  [[nodiscard]] bool has_memory();
  void take_line(std::string_view line);
  void take_long_line();
  void note_failure(std::size_t line, std::string_view code, std::string_view detail);
  void count(const EnqueueOutcome& outcome);
  void require_token() const;
  void store_batch();
  void store_run(const IntakeBatch::Run& run);
  void store_one_by_one(const IntakeBatch::Run& run);
  void fail(const std::exception_ptr& failure) noexcept;

  const ExchangePtr exchange_;
  const ServedQueuePtr queue_;
  const std::size_t max_line_bytes_;
  const Clock& clock_;
  BatchDefaults defaults_;
  LineSplitter splitter_;
  wire::MessageDefaults line_defaults_;
  std::size_t lines_ = 0;         ///< that came, blank ones too
  std::size_t lines_stored_ = 0;  ///< that were dealt with
  IntakeBatch batch_;
  std::vector<std::size_t> batch_lines_;  ///< their numbers, the first is 1
  IntakeSummary summary_;
  std::size_t failure_bytes_ = 0;  ///< of the summary
  MemoryHold hold_;                ///< for the unfinished line, the batch and the summary
};

}  // namespace oncebox::server
