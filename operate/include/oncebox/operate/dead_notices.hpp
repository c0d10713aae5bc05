#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/dead_notice.hpp"
#include "oncebox/operate/watchdog.hpp"

namespace oncebox {

/// Where notices go. Called on a thread of the watchdog, which it holds up.
class DeadNoticeSink {
 public:
  virtual ~DeadNoticeSink() = default;
  virtual void on_notice(const DeadNotice& notice) noexcept = 0;
};

struct DeadNoticesOptions {
  /// In ascending order; 1 is the first dead message of a group.
  std::vector<std::size_t> thresholds = {1, 10, 100, 1'000, 10'000, 100'000};
  /// Between two notices of one group. What is reached meanwhile is told afterwards, once.
  Duration cooldown = std::chrono::minutes{15};
  /// A group of which none died for so long begins anew.
  Duration forget_after = std::chrono::hours{24};
  /// What was dead at the first look at a store is told, too, when one of the group died within
  /// this: nobody may have looked while the process started again. So some are told twice.
  Duration recent = std::chrono::minutes{5};
  /// Of one queue at one look. Where the errors of a topic have a part that varies, each death is a
  /// group: those with the most deaths are told, and of the others how many they are.
  std::size_t max_notices = 20;

  /// Throws `out_of_range` or `invalid_argument`, naming the option.
  void validate() const;
};

/// Gives notice of dead messages, whoever buried them: a listener of a watchdog that looks at what
/// has died since its last look.
///
/// What was dead when it looked at a store for the first time is counted, but told only where it is
/// recent. A death is told of once in this process, however many have the same time, and not missed
/// when it is recorded up to a minute late. More than 100,000 deaths between two looks are not all
/// counted. Of each queue it remembers up to 1,000 groups, those with the latest deaths.
class DeadNotices final : public LookListener {
 public:
  /// The sink is borrowed.
  DeadNotices(const DeadNoticesOptions& options, DeadNoticeSink& sink);
  ~DeadNotices() override;
  DeadNotices(const DeadNotices&) = delete;
  DeadNotices& operator=(const DeadNotices&) = delete;

  void on_look(const QueueLook& look) override;
  void on_removed(const std::string& store) noexcept override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
