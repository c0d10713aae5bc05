#include "oncebox/sql/stage.hpp"

namespace oncebox::sql {

Status status_of(Stage stage) noexcept {
  switch (stage) {
    case Stage::seen:
      return Status::seen;
    case Stage::done:
      return Status::done;
    case Stage::dead:
      return Status::dead;
    case Stage::exposed:
    case Stage::blocked:
    case Stage::leased:
    case Stage::without_content:
    case Stage::returned:
      return Status::processing;
  }
  return Status::seen;
}

Stage stage_of(const MessageState& state) noexcept {
  switch (state.status) {
    case Status::seen:
      return Stage::seen;
    case Status::done:
      return Stage::done;
    case Status::dead:
      return Stage::dead;
    case Status::processing:
      break;
  }
  if (state.enqueue_order == 0) return Stage::without_content;
  if (state.lease) return Stage::leased;
  return state.partition_key ? Stage::blocked : Stage::exposed;
}

}  // namespace oncebox::sql
