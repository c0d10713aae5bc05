#pragma once

#include "oncebox/log.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/transaction.hpp"
#include "values.hpp"

/// Words that stand for values both on the command line and in the configuration.
namespace oncebox::app {

inline constexpr Choice<LogLevel> kLogLevels[] = {{"debug", LogLevel::debug},
                                                  {"info", LogLevel::info},
                                                  {"warning", LogLevel::warning},
                                                  {"error", LogLevel::error}};

inline constexpr Choice<HashMismatchPolicy> kMismatchPolicies[] = {
    {"warn", HashMismatchPolicy::warn},
    {"reject", HashMismatchPolicy::reject},
    {"quarantine", HashMismatchPolicy::quarantine},
    {"keep-first", HashMismatchPolicy::keep_first}};

inline constexpr Choice<Jitter> kJitters[] = {
    {"none", Jitter::none}, {"equal", Jitter::equal}, {"full", Jitter::full}};

inline constexpr Choice<QueueKind> kQueues[] = {{"inbox", QueueKind::inbox},
                                                {"outbox", QueueKind::outbox},
                                                {"deliveries", QueueKind::deliveries}};

inline constexpr Choice<DeadPolicy> kDeadPolicies[] = {{"keep", DeadPolicy::keep},
                                                       {"revive", DeadPolicy::revive}};

}  // namespace oncebox::app
