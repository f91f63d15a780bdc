package flags

import (
	"fmt"
	"os"
	"path/filepath"
)

// Exposed returns a warning if every user of the host may read or write a file or folder
// that only its owner should access, with the command that fixes it. setting names the path.
// Otherwise it returns "", also for a file that it cannot examine: the file's reader reports
// that. Devices such as /dev/null are for every user.
func Exposed(setting, path string) string {
	if path == "" {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	// The command must work in any working directory.
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	mode := info.Mode()
	if !mode.IsDir() && !mode.IsRegular() {
		return ""
	}
	may := ""
	switch mode.Perm() & 0o006 {
	case 0:
		return ""
	case 0o004:
		may = "read"
	case 0o002:
		may = "write"
	default:
		may = "read and write"
	}
	if mode.IsDir() {
		may += " in"
	}
	return fmt.Sprintf("%s: %s has mode %04o, so every user of this host may %s it; run: chmod o-rwx %s", setting, path, mode.Perm(), may, path)
}
