// Package sqltest tests retrysql on real databases: SQLite, PostgreSQL and MariaDB. It contains
// only tests.
package sqltest
