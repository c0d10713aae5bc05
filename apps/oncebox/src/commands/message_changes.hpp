#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "filter_options.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "output.hpp"
#include "store_options.hpp"

/// What the commands share that change messages by their ids, or all that match.
namespace oncebox::app {

/// Which messages a command is to change.
struct ChangeOptions {
  StoreOptions store = {};
  std::vector<std::string> ids = {};
  FilterOptions filter = {};
  std::size_t limit = 0;  ///< of a filter; 0: no limit
  bool all = false;
  bool dry_run = false;
};

/// The filters, --all, --limit and --dry-run. `all_text` says what --all means.
[[nodiscard]] std::vector<Option> change_options(ChangeOptions& options, StatusOption status,
                                                 std::string_view all_text);
[[nodiscard]] std::vector<Argument> id_arguments(ChangeOptions& options);

/// One kind of change.
struct MessageChange {
  std::string_view done;  ///< "revived"
  AuditAction action = AuditAction::revive;
  std::string reason = {};
  /// What the audit trail says was selected.
  std::function<std::string(const wire::MessageSelection&)> subject;
  /// Whether a message would be changed.
  std::function<bool(const MessageRecord&)> applies;
  /// How many of those that match would be.
  std::function<std::size_t(QueueOperator&, const MessageFilter&)> count;
  /// Answers how many of the keys it changed, and prints the outcomes as JSON when asked to.
  std::function<std::size_t(QueueOperator&, std::span<const MessageKey>, Output* json)> by_keys;
  /// Changes as many of those that match, and tells how many it did.
  std::function<std::size_t(QueueOperator&, const MessageFilter&, std::size_t limit)> by_filter;
};

/// Runs `step`, which answers how many it changed, with a trace. A server leaves one itself.
std::size_t with_trace(const OpenStore& store, const MessageChange& change, std::string subject,
                       const std::function<std::size_t()>& step);

/// Refuses a selection that names no message, or two ways at once.
void require_selection(const ChangeOptions& options, bool has_other_way = false);

/// By ids, or by a filter; prints how many were changed.
ExitCode change_messages(Console& console, const ChangeOptions& options,
                         const MessageChange& change);

}  // namespace oncebox::app
